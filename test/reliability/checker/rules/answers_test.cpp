#include "by_hand.hpp"

namespace {

using namespace by_hand;

TEST(checker, I4_sees_a_release_by_a_holder_that_has_lost_the_lock)
{
    const auto release = [](int at) {
        const auto t = std::to_string(at);
        return "call 3 client=1 do=release by=token names=a of=1 at=" + t + "\ndone 3 result=yes before=" + t +
               " after=" + t + " at=" + std::to_string(at + 1) + '\n';
    };
    EXPECT_EQ(broken(first + second("1110", 1100) + release(1500)), "I4") << "after a successor";
    EXPECT_EQ(broken(first + release(1111)), "I4") << "after the lease's end";
    EXPECT_EQ(broken(first + release(1109)), "");
    EXPECT_EQ(broken(first + "call 9 client=1 do=release by=token names=a of=1 at=300\ndone 9 result=yes at=310\n" +
                     release(400)),
              "I4")
        << "twice";
}

TEST(checker, I4_sees_a_change_by_a_client_that_never_had_the_lock)
{
    EXPECT_EQ(
        broken(first + "call 3 client=2 do=extend by=session names=a at_most=5 at=200\ndone 3 result=yes at=210\n"),
        "I4");
    EXPECT_EQ(
        broken(first + "call 3 client=2 do=extend by=session names=a at_most=5 at=200\ndone 3 result=no at=210\n"), "");
}

TEST(checker, I12_sees_a_release_of_an_acquisition_that_was_rolled_back)
{
    EXPECT_EQ(broken(R"(history seed=1
call 1 client=1 tx=1 do=start at=90
done 1 result=yes at=95
call 2 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 2 result=yes token=110 at=120
call 3 client=1 tx=1 do=rollback at=130
done 3 result=yes at=140
call 4 client=1 do=release by=token names=a of=2 at=200
done 4 result=yes at=210
)"),
              "I12");
}

TEST(checker, sees_a_refusal_without_a_reason)
{
    const auto refused = [](int at) {
        const auto t = std::to_string(at);
        return "call 5 client=3 do=acquire by=session names=a at_most=10 at_least=0 at=" + t +
               "\ndone 5 result=no before=" + t + " at=" + std::to_string(at + 10) + '\n';
    };
    const auto other = [](int at) {
        return "call 6 client=4 do=acquire by=session names=a at_most=10 at_least=0 at=" + std::to_string(at) +
               "\ndone 6 result=no at=2000\n";
    };
    EXPECT_EQ(broken(first + other(1000) + refused(1111)), "")
        << "another call saw an earlier state, and was about to take the lock";
    EXPECT_EQ(broken(first + refused(1200) + other(1190)), "unexplained") << "the other call saw the same state";
    const auto java = [](int at) {
        return "call 7 client=5 do=acquire by=java names=a at_most=5 at=" + std::to_string(at) +
               "\ndone 7 result=yes token=" + std::to_string(at) + " until=" + std::to_string(at + 5) +
               " at=" + std::to_string(at + 20) + '\n';
    };
    EXPECT_EQ(broken(first + other(1190) + refused(1200) + java(1300)), "")
        << "the other call was about to take the lock until a Java client overtook it";
    EXPECT_EQ(broken(first + other(1190) + refused(1200) + java(2001)), "unexplained")
        << "the Java client came too late for that";
    EXPECT_EQ(broken(first + other(1190) + refused(1200) +
                     "call 7 client=0 do=force names=a at=1300\ndone 7 result=no at=1320\n"),
              "")
        << "a release by force may overtake it as well";
    EXPECT_EQ(broken(first + java(1150) + other(1190) + refused(1200)), "unexplained")
        << "the Java client came too early";
    EXPECT_EQ(broken("history seed=1\n" + refused(100)), "unexplained") << "no client ever had the lock";
    const std::string library =
        "call 8 client=6 do=acquire by=library names=a at_most=5 at=95\ndone 8 result=no at=120\n";
    const auto next = second("117", 112);
    EXPECT_EQ(broken("history seed=1\n" + library + refused(100) + next), "unexplained");
    EXPECT_EQ(broken("history seed=1 allow=57P01\n" + library + refused(100) + next), "")
        << "the lock may have been granted for 5 microseconds, and the reply lost";
    EXPECT_EQ(broken(first + refused(1110)), "") << "the lease ends in this microsecond";
    EXPECT_EQ(broken(first + refused(1111)), "unexplained") << "it has just ended";
    EXPECT_EQ(
        broken(
            first +
            "call 3 client=1 do=release by=token names=a of=1 at=200\ndone 3 result=yes before=205 after=206 at=220\n" +
            refused(225)),
        "unexplained");
    EXPECT_EQ(
        broken(
            first +
            "call 3 client=1 do=release by=token names=a of=1 at=200\ndone 3 result=yes before=205 after=206 at=220\n" +
            refused(215)),
        "");
    EXPECT_EQ(broken("history seed=1\n" + refused(100) +
                     "call 6 client=1 do=acquire by=java names=a at_most=5 at=95\ndone 6 result=no at=120\n"),
              "")
        << "a Java client had locked the row";
}

TEST(checker, I2_sees_unexpected_errors)
{
    const auto failing = [](const char *what, const char *by, const char *state) {
        return std::string{"history seed=1 allow=57014\ncall 1 client=1 do="} + what + " by=" + by +
               " names=a at_most=5 at_least=0 at=100\ndone 1 result=error state=" + state + " at=110\n";
    };
    for (const auto *const state : {"40001", "23505", "40P01", "55P03", "25001", "XX000"})
        EXPECT_EQ(broken(failing("acquire", "token", state)), "I2") << state;
    EXPECT_EQ(broken("history seed=1 allow=55P03\ncall 1 client=1 do=acquire by=token names=a at_most=5 at=100\ndone 1 "
                     "result=error state=55P03 at=110\n"),
              "I2")
        << "acquire never waits, so no lock_timeout can end its wait";
    EXPECT_EQ(broken(failing("acquire", "token", "57014")), "") << "allowed by the head of the history";
    EXPECT_EQ(broken(failing("acquire", "java", "40001")), "") << "Java clients do fail like this";
    EXPECT_EQ(broken(failing("guard", "token", "SL001")), "");
    EXPECT_EQ(broken(failing("acquire", "token", "SL001")), "I2");

    const auto committing = "call 2 client=1 tx=1 do=commit by=token at=100\ndone 2 result=error state=40001 at=110\n";
    const auto prepared = [](const char *by) {
        return std::string{"call 1 client=2 tx=1 do=prepare by="} + by + " at=90\ndone 1 result=yes at=95\n";
    };
    EXPECT_EQ(broken("history seed=1\n" + prepared("java") + committing), "")
        << "the prepared transaction can no longer fail, so ours does";
    EXPECT_EQ(broken("history seed=1\n" + prepared("token") + committing), "unexplained");
}

TEST(checker, lets_the_portable_edition_fail_if_rows_have_changed)
{
    const auto failing = [](const char *level, const char *what, const char *state) {
        return std::string{"history seed=1 edition=portable\ncall 1 client=1 tx=1 do=start at=80"} + level +
               "\ndone 1 result=yes at=90\ncall 2 client=1 tx=1 do=" + what +
               " by=token names=a at_most=5 of=9 at=100\ndone 2 result=error state=" + state + " at=110\n";
    };
    for (const auto *const what : {"extend", "release", "guard"}) {
        EXPECT_EQ(broken(failing(" level=repeatable", what, "40001")), "") << what;
        EXPECT_EQ(broken(failing("", what, "40001")), "unexplained") << what;
    }
    EXPECT_EQ(broken(failing(" level=repeatable", "acquire", "40001")), "I2") << "it should be refused";
    EXPECT_EQ(broken(failing(" level=serializable", "acquire", "40001")), "");
    EXPECT_EQ(broken(failing("", "acquire", "40P01")), "I2");
    EXPECT_EQ(broken(failing("", "acquire", "55P03")), "I2");
}

TEST(checker, lets_the_portable_edition_guard_only_against_others)
{
    const auto again = guarded(1500, "result=yes");
    const auto commit = again.find("call 13");
    const auto own = "call 2 client=1 tx=1 do=acquire by=token names=a at_most=5 at_least=0 at=1200\ndone 2 result=yes "
                     "token=1210 before=1205 after=1215 until=1215 at=1220\n";
    const auto history = first + again.substr(0, commit) + own + again.substr(commit);
    EXPECT_EQ(broken(history), "I11");
    EXPECT_EQ(broken("history seed=1 edition=portable" + history.substr(history.find('\n'))), "");
}

TEST(checker, lets_the_portable_edition_refuse_a_lock_that_it_cannot_see_as_free)
{
    const auto refused = [](const std::string &head, const char *level) {
        return "history seed=1" + head + "\ncall 1 client=1 tx=1 do=start at=80" + level +
               "\ndone 1 result=yes at=90\ncall 2 client=1 tx=1 do=acquire by=token names=a at_most=5 at_least=0 "
               "at=100\n"
               "done 2 result=no at=110\n";
    };
    EXPECT_EQ(broken(refused(" edition=portable", " level=repeatable")), "");
    EXPECT_EQ(broken(refused(" edition=portable", "")), "unexplained");
    EXPECT_EQ(broken(refused("", " level=repeatable")), "unexplained");
}

TEST(checker, lets_the_portable_edition_refuse_while_an_extend_may_be_under_way)
{
    const auto refused = [](const char *head, const char *kept, int at) {
        const auto when = std::to_string(at);
        return std::string{"history seed=1"} + head +
               "\ncall 1 client=1 do=acquire by=library names=a at_most=100 at_least=0" + kept +
               " at=100 wall=100\ndone 1 result=yes token=110 trust=190 at=120 wall=120\n"
               "call 2 client=1 do=release by=library names=a of=1 at=130 wall=130\ndone 2 result=yes at=140 wall=140\n"
               "call 3 client=2 do=acquire by=token names=a at_most=5 at_least=0 at=" +
               when + " wall=" + when + "\ndone 3 result=no at=500 wall=500\n";
    };
    EXPECT_EQ(broken(refused(" edition=portable", " keep_alive=yes", 150)), "");
    EXPECT_EQ(broken(refused(" edition=portable", " keep_alive=yes", 300)), "unexplained")
        << "the lease has long ended";
    EXPECT_EQ(broken(refused(" edition=portable", "", 150)), "unexplained") << "no client extends it";
    EXPECT_EQ(broken(refused("", " keep_alive=yes", 150)), "unexplained")
        << "in the extension a late extend does not lock the row";
}

TEST(checker, lets_java_miss_the_rows_of_a_table_that_was_rewritten_after_its_snapshot)
{
    const auto not_done = [](const std::string &head, const std::string &by, const std::string &level) {
        return "history seed=1" + head + "\ncall 1 client=1 do=acquire by=" + by +
               " names=a at_most=1000 at_least=0 at=100\ndone 1 result=yes token=110 before=105 after=115 until=1110 "
               "at=120\ncall 2 client=1 tx=1 do=start by=" +
               by + level + " at=130\ndone 2 result=yes at=140\ncall 3 client=1 tx=1 do=extend by=" + by +
               " names=a at_most=1000 of=1 at=200\ndone 3 result=no at=210\n";
    };
    EXPECT_EQ(broken(not_done(" allow=42P01", "java", " level=repeatable")), "");
    EXPECT_EQ(broken(not_done("", "java", " level=repeatable")), "unexplained") << "no DDL";
    EXPECT_EQ(broken(not_done(" allow=42P01", "java", "")), "unexplained") << "each statement has its own snapshot";
    EXPECT_EQ(broken(not_done(" allow=42P01", "token", " level=repeatable")), "unexplained")
        << "our functions use a new snapshot";
}

TEST(checker, sees_a_row_that_no_client_knows_of)
{
    const auto look = "call 7 client=0 do=look names=a at=2000\ndone 7 result=yes rows=a:777:1777 at=2010\n";
    EXPECT_EQ(
        broken(std::string{"history seed=1 allow=57014\ncall 1 client=1 do=acquire by=token names=a at_most=5 at=100\n"
                           "done 1 result=error state=57014 at=110\n"} +
               look),
        "unexplained");
    EXPECT_EQ(
        broken(std::string{"history seed=1\ncall 1 client=1 do=acquire by=token names=a at_most=5 at=100\n"} + look),
        "");
}

} // namespace
