#include "by_hand.hpp"

namespace {

using namespace by_hand;

std::string text(int number)
{
    return std::to_string(number);
}

// What the ledger and the history of runs have at the end.
std::string left(const std::string &endings, const char *effects = "")
{
    return std::string{"call 90 client=0 do=effects at=2000\ndone 90 result=yes rows="} + effects +
           " endings=" + endings + " at=2010\n";
}

// By client 1, of its acquisition with token 110.
std::string release(const char *how = "", const char *answer = "result=yes", const char *tx = "", int at = 200)
{
    return std::string{"call 5 client=1 do=release by=token names=a of=1"} + how + tx + " at=" + text(at) +
           "\ndone 5 " + answer + " before=" + text(at) + " after=" + text(at + 1) + " at=" + text(at + 5) + '\n';
}

std::string in_transaction(const std::string &within, const char *end, const char *answer = "result=yes")
{
    return "call 11 client=1 tx=1 do=start at=180\ndone 11 result=yes at=185\n" + within +
           "call 19 client=1 tx=1 do=" + end + " at=300\ndone 19 " + answer + " at=310\n";
}

const std::string completed = "call 12 client=1 tx=1 do=complete by=token names=a of=1 at=200\n"
                              "done 12 result=yes at=205\n";

constexpr const char *done = "a:110:1";
constexpr const char *failed = "a:110:2";
constexpr const char *ran_out = "a:110:3";
constexpr const char *freed = "a:110:4";
constexpr const char *worked = "a:110:12";

TEST(checker, history_has_no_row_of_a_run_that_has_not_ended)
{
    EXPECT_EQ(broken(first + left("")), "");
    EXPECT_EQ(broken(first + left(done)), "history");
    EXPECT_EQ(broken(first + left(ran_out)), "history");
    EXPECT_EQ(broken(first + left("a:109:1")), "history") << "there was no such acquisition";
    EXPECT_EQ(broken(first +
                     "call 6 client=3 do=acquire by=session names=a at_most=10 at=1300\ndone 6 result=lost "
                     "at=1310\n" +
                     left("a:1305:2")),
              "")
        << "its answer was lost";
}

TEST(checker, history_says_how_a_run_was_released)
{
    EXPECT_EQ(broken(first + release() + left(done)), "");
    EXPECT_EQ(broken(first + release() + left("")), "history");
    EXPECT_EQ(broken(first + release() + left(failed)), "history");
    EXPECT_EQ(broken(first + release() + left("a:110:1,a:110:1")), "history") << "twice";
    EXPECT_EQ(broken(first + release(" done=no") + left(failed)), "");
    EXPECT_EQ(broken(first + release(" done=no") + left(done)), "history");
    EXPECT_EQ(broken(first + release("", "result=lost") + left(done)), "") << "in doubt";
    EXPECT_EQ(broken(first + release("", "result=lost") + left("")), "");
    EXPECT_EQ(broken(first + release("", "result=lost") + left(failed)), "history");
    EXPECT_EQ(broken(first + release("", "result=lost") + left("a:110:1,a:110:3")), "history") << "never both";
    EXPECT_EQ(broken("history seed=1 crashes=yes\n" + first.substr(first.find('\n') + 1) + release() + left("")), "")
        << "a crash may undo it";
}

TEST(checker, history_has_no_row_of_a_release_that_was_rolled_back)
{
    const auto ended = [](const char *how, const char *answer = "result=yes") {
        return first + in_transaction(release("", "result=yes", " tx=1"), how, answer);
    };
    EXPECT_EQ(broken(ended("commit") + left(done)), "");
    EXPECT_EQ(broken(ended("commit") + left("")), "history");
    EXPECT_EQ(broken(ended("rollback") + left("")), "");
    EXPECT_EQ(broken(ended("rollback") + left(done)), "history");
    EXPECT_EQ(broken(ended("commit", "result=lost") + left("")), "");
    EXPECT_EQ(broken(ended("commit", "result=lost") + left(done)), "");
    EXPECT_EQ(broken("history seed=1\n" +
                     in_transaction("call 1 client=1 tx=1 do=acquire by=token names=a at_most=1000 at=187\ndone 1 "
                                    "result=yes token=190 at=195\n",
                                    "rollback") +
                     left("a:190:1")),
              "history")
        << "not even the acquisition was committed";
}

TEST(checker, history_says_done_if_and_only_if_a_completion_has_an_effect)
{
    const auto ended = [](const char *how, const char *answer = "result=yes") {
        return first + in_transaction(completed, how, answer);
    };
    EXPECT_EQ(broken(ended("commit") + left(done, worked)), "");
    EXPECT_EQ(broken(ended("commit") + left("", worked)), "history");
    EXPECT_EQ(broken(ended("commit") + left("a:110:1,a:110:1", worked)), "history");
    EXPECT_EQ(broken(ended("rollback") + left(done)), "history");
    EXPECT_EQ(broken(ended("commit", "result=lost") + left(done, worked)), "");
    EXPECT_EQ(broken(ended("commit", "result=lost") + left("")), "");
    EXPECT_EQ(broken(ended("commit", "result=lost") + left("", worked)), "history") << "the effect without the row";
    EXPECT_EQ(broken(ended("commit", "result=lost") + left(done)), "history") << "the row without the effect";
    const auto prepared = ended("prepare") + "call 21 client=1 tx=1 do=commit at=500\ndone 21 result=yes at=510\n";
    EXPECT_EQ(broken(prepared + left(done, worked)), "");
    EXPECT_EQ(broken(prepared + left("", worked)), "history");
}

TEST(checker, history_says_that_a_run_which_was_replaced_ran_out)
{
    const auto replaced = first + second("1120", 1115);
    EXPECT_EQ(broken(replaced + left(ran_out)), "");
    EXPECT_EQ(broken(replaced + left("")), "history");
    EXPECT_EQ(broken(replaced + left(done)), "history");
    EXPECT_EQ(broken(replaced + left("a:110:3,a:1120:3")), "history") << "its successor is still there";
    EXPECT_EQ(broken(first + release() + second("1120", 1115) + left("a:110:1,a:110:3")), "history")
        << "it had been released";
    EXPECT_EQ(broken(first +
                     "call 2 client=2 do=acquire by=token names=a at_most=10 at=1115\ndone 2 result=lost "
                     "at=1130\n" +
                     left("")),
              "")
        << "it is not known whether it was replaced";
    const auto java = "call 7 client=5 do=acquire by=java names=a at_most=10 at=1115\ndone 7 result=yes token=1116 "
                      "at=1118\n";
    EXPECT_EQ(broken(first + java + second("1140", 1135) + left("")), "") << "a Java client overwrites it";
    EXPECT_EQ(broken(first + java + left("a:1116:3")), "history") << "and is not recorded itself";
    EXPECT_EQ(broken(first + "call 9 client=0 do=revoke names=a at=300\ndone 9 result=yes at=310\n" +
                     second("1120", 1115) + left("")),
              "")
        << "its row was deleted";
}

TEST(checker, history_says_that_a_run_was_freed)
{
    const auto force = [](const char *answer) {
        return first + "call 9 client=0 do=force names=a at=300\ndone 9 result=" + answer + " at=310\n";
    };
    EXPECT_EQ(broken(force("yes") + left(freed)), "");
    EXPECT_EQ(broken(force("yes") + second("330", 320) + left("")), "history");
    EXPECT_EQ(broken(force("yes") + left(ran_out)), "history");
    EXPECT_EQ(broken(force("lost") + left(freed)), "");
    EXPECT_EQ(broken(force("lost") + left("")), "");
    EXPECT_EQ(broken(release() + left("")), "") << "nobody's";
    EXPECT_EQ(broken(first + left(freed)), "history");
}

TEST(checker, history_has_a_row_of_each_run_of_a_command)
{
    const auto ran = [](const char *answer, const char *how = "") {
        return std::string{"history seed=1\ncall 1 client=1 do=run by=session names=a at_most=1000 at_least=0"} + how +
               " at=100\ndone 1 " + answer + " at=200\n";
    };
    constexpr const char *well = "result=yes token=110 begun=130 ended=180";
    EXPECT_EQ(broken(ran(well) + left(done, "a:110:1")), "");
    EXPECT_EQ(broken(ran(well) + left("", "a:110:1")), "history");
    const auto fails = ran("result=error state=22012 token=110 begun=130", " done=no");
    EXPECT_EQ(broken(fails + left(failed)), "");
    EXPECT_EQ(broken(fails + left("")), "history");
    EXPECT_EQ(broken(fails + left(done)), "history");
    const auto dies = ran("result=lost token=110 begun=130") + "call 8 client=1 do=gone of=1 at=240\ndone 8 result=yes "
                                                               "at=250\n";
    EXPECT_EQ(broken(dies + left("")), "");
    EXPECT_EQ(broken(dies + left(failed)), "") << "it may have failed before";
    EXPECT_EQ(broken(dies + left(done)), "history") << "without an effect";
    EXPECT_EQ(broken(dies + left(done, "a:110:1")), "");
    EXPECT_EQ(broken(dies + second("280", 270) + left("")), "history");
    EXPECT_EQ(broken(dies + second("280", 270) + left(ran_out)), "");
}

TEST(checker, history_may_have_rows_of_names_that_the_library_released_one_by_one)
{
    const auto released = [](const char *answer) {
        return std::string{"history seed=1\ncall 1 client=1 do=acquire by=library names=a,b at_most=1000 at=100\ndone "
                           "1 result=yes token=110 at=120\ncall 9 client=0 do=force names=b at=130\ndone 9 result=yes "
                           "at=140\ncall 5 client=1 do=release by=library names=a,b of=1 at=200\ndone 5 result="} +
               answer + " at=205\n";
    };
    EXPECT_EQ(broken(released("no") + left("a:110:1,b:110:4")), "");
    EXPECT_EQ(broken(released("no") + left("b:110:4")), "");
    EXPECT_EQ(broken(released("no") + left("a:110:2,b:110:4")), "history");
}

} // namespace
