#include "by_hand.hpp"

namespace {

using namespace by_hand;

// Client 1 is granted lock a at 110, for tick 90.
const std::string granted = R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 tick=90 retry=yes at=100
done 1 result=yes token=110 before=105 after=115 until=1110 at=120
)";

// A transaction that begins at 180 and whose end lasts from 300 to 310. `within` comes before its end.
std::string transaction(const std::string &within, const char *end = "commit", const char *answer = "result=yes")
{
    return "call 11 client=1 tx=1 do=start at=180\ndone 11 result=yes at=185\n" + within +
           "call 19 client=1 tx=1 do=" + end + " at=300\ndone 19 " + answer + " at=310\n";
}

std::string complete(int number, int at, const char *answer = "result=yes", const char *tx = " tx=1")
{
    const auto text = [](int one) { return std::to_string(one); };
    return "call " + text(number) + " client=1" + tx + " do=complete by=token names=a of=1 at=" + text(at) + "\ndone " +
           text(number) + " " + answer + " at=" + text(at + 5) + '\n';
}

const std::string completed = complete(12, 200);

std::string step(int number, const char *what, int at)
{
    return "call " + std::to_string(number) + " client=1 tx=1 do=" + what + " at=" + std::to_string(at) + "\ndone " +
           std::to_string(number) + " result=yes at=" + std::to_string(at + 5) + '\n';
}

std::string release(const char *how, int at, const char *tx = "", int client = 7)
{
    const auto text = [](int one) { return std::to_string(one); };
    return "call 20 client=" + text(client) + tx + " do=release by=token names=a of=1" + how + " at=" + text(at) +
           "\ndone 20 result=yes before=" + text(at) + " after=" + text(at + 1) + " at=" + text(at + 5) + '\n';
}

std::string left(const char *rows)
{
    return std::string{"call 90 client=0 do=effects at=2000\ndone 90 result=yes"} + rows + " at=2010\n";
}

std::string again(const char *answer, int at)
{
    return asks_for_tick(90, " retry=yes", answer, at);
}

TEST(checker, completion_frees_the_lock_with_the_commit)
{
    const auto history = granted + transaction(completed) + left(" rows=a:110:12");
    EXPECT_EQ(broken(history + second("330", 320)), "");
    EXPECT_EQ(broken(history + second("305", 303)), "") << "the commit was done, and its reply on the way";
    EXPECT_EQ(broken(history + second("260", 250)), "I1 I11 I4") << "completed, but not yet committed";
    EXPECT_EQ(broken(history + again("no", 320)), "") << "its tick is done";
    EXPECT_EQ(broken(history + again("yes token=330", 320)), "tick");
    EXPECT_EQ(broken(granted + complete(12, 200, "result=yes", "") + left(" rows=a:110:12") + second("220", 215)), "")
        << "in a separate transaction";
}

TEST(checker, completion_that_is_rolled_back_has_not_happened)
{
    const auto ended = [](const char *how) { return granted + transaction(completed, how) + left(""); };
    EXPECT_EQ(broken(ended("rollback") + again("no", 320)), "") << "still held";
    EXPECT_EQ(broken(ended("rollback") + second("330", 320)), "I1");
    EXPECT_EQ(broken(ended("rollback") + again("no", 1200)), "unexplained") << "its tick is not done";
    const auto undone = transaction(step(13, "savepoint", 190) + completed + step(14, "undo", 250));
    EXPECT_EQ(broken(granted + undone + left("") + again("no", 320)), "");
    EXPECT_EQ(broken(granted + undone + left("") + second("330", 320)), "I1") << "by ROLLBACK TO";
    const auto kept = transaction(completed + step(13, "savepoint", 220) + complete(15, 230) + step(14, "undo", 250));
    EXPECT_EQ(broken(granted + kept + left(" rows=a:110:12") + second("330", 320)), "")
        << "a completion before the savepoint stays";
}

TEST(checker, sees_a_completion_of_a_lock_that_was_released_before)
{
    const auto there = left(" rows=a:110:12");
    EXPECT_EQ(broken(granted + release(" done=no", 150) + transaction(completed) + there), "I4");
    EXPECT_EQ(broken(granted + release("", 150) + transaction(completed) + there), "I4");
    EXPECT_EQ(broken(granted + transaction(completed + release(" done=no", 250)) + there), "I4")
        << "by another client, between the completion and the commit";
    EXPECT_EQ(broken(granted + transaction(completed + release(" done=no", 298)) + there), "")
        << "it may have been just after the commit";
    EXPECT_EQ(broken(granted + transaction(release("", 190, " tx=1", 1) + completed) + there), "")
        << "in the same transaction, as done";
    EXPECT_EQ(broken(granted + transaction(release(" done=no", 190, " tx=1", 1) + completed) + there), "I4");
    EXPECT_EQ(broken(granted + transaction(completed + release("", 250, " tx=1", 1)) + there + second("330", 320)), "");
}

TEST(checker, completion_can_be_repeated_only_within_its_transaction)
{
    EXPECT_EQ(broken(granted + transaction(completed + complete(13, 230)) + left(" rows=a:110:12,a:110:13")), "");
    EXPECT_EQ(broken(granted + transaction(completed) + complete(23, 400, "result=yes", "") +
                     left(" rows=a:110:12,a:110:23")),
              "I4 effect");
    EXPECT_EQ(broken(granted + transaction(completed) + complete(23, 400, "result=error state=SL001", "") +
                     left(" rows=a:110:12")),
              "");
}

TEST(checker, completion_fails_for_a_reason)
{
    const auto fails = complete(12, 200, "result=error state=SL001", "");
    const auto commit_fails = transaction(completed, "commit", "result=error state=SL001");
    EXPECT_EQ(broken(granted + fails + left("")), "unexplained");
    EXPECT_EQ(broken(granted + release(" done=no", 150) + fails + left("")), "");
    EXPECT_EQ(broken(granted + commit_fails + left("")), "unexplained");
    const auto released = completed + release(" done=no", 250);
    EXPECT_EQ(broken(granted + transaction(released, "commit", "result=error state=SL001") + left("")), "");
    EXPECT_EQ(broken(granted + transaction(release(" done=no", 250, " tx=1", 1), "commit", "result=error state=SL001") +
                     left("")),
              "unexplained")
        << "the transaction completes nothing";
    auto late = fails;
    for (auto at = late.find("at=20"); at != late.npos; at = late.find("at=20", at + 1))
        late.replace(at + 3, 1, "12");
    EXPECT_EQ(broken(granted + late + left("")), "unexplained")
        << "the lease has ended, but no client has taken the lock";
    EXPECT_EQ(broken(granted + second("1120", 1115) + late + left("")), "");
}

TEST(checker, completion_after_the_end_of_the_lease_is_done)
{
    const auto late = complete(12, 1200, "result=yes", "");
    EXPECT_EQ(broken(granted + late + left(" rows=a:110:12")), "");
    EXPECT_EQ(broken(granted + second("1120", 1115) + late + left(" rows=a:110:12")), "I11 I4");
}

TEST(checker, completion_leaves_its_effect_if_and_only_if_it_is_committed)
{
    EXPECT_EQ(broken(granted + transaction(completed) + left("")), "effect");
    EXPECT_EQ(broken(granted + transaction(completed) + left(" rows=a:110:12,a:110:12")), "effect");
    EXPECT_EQ(broken(granted + transaction(completed, "rollback") + left(" rows=a:110:12")), "effect");
    EXPECT_EQ(broken(granted + transaction(completed, "commit", "result=lost") + left("")), "");
    EXPECT_EQ(broken(granted + transaction(completed, "commit", "result=lost") + left(" rows=a:110:12")), "");
    const auto next = "call 3 client=2 do=acquire by=token names=a at_most=50 at_least=0 tick=90 retry=yes at=320\n"
                      "done 3 result=yes token=330 at=325\ncall 4 client=2 do=complete by=token names=a of=3 at=330\n"
                      "done 4 result=yes at=335\n";
    EXPECT_EQ(broken(granted + transaction(completed, "commit", "result=lost") + next + left(" rows=a:330:4")), "");
    EXPECT_EQ(broken(granted + transaction(completed, "commit", "result=lost") + next + left(" rows=a:110:12,a:330:4")),
              "effect")
        << "the first was in doubt, and the tick was run again";
}

TEST(checker, completion_whose_answer_was_lost_can_explain_that_the_library_reports_a_release)
{
    const auto released = [](const char *by, const char *commit) {
        return granted + transaction(completed, "commit", commit) + second("330", 320) +
               "call 20 client=1 do=release by=" + by + " names=a of=1 at=400\ndone 20 result=yes at=410\n";
    };
    EXPECT_EQ(broken(released("library", "result=lost")), "");
    EXPECT_EQ(broken(released("token", "result=lost")), "I4") << "the function itself answers false";
    EXPECT_EQ(broken(released("library", "result=error state=SL001")), "I1 I4 unexplained") << "nothing was completed";
}

TEST(checker, completion_that_is_prepared_keeps_other_clients_out)
{
    const auto end = [](const char *how) {
        return std::string{"call 21 client=1 tx=1 do="} + how + " at=500\ndone 21 result=yes at=510\n";
    };
    const auto prepared = granted + transaction(completed, "prepare");
    const auto there = left(" rows=a:110:12");
    EXPECT_EQ(broken(prepared + again("no", 400) + end("commit") + there), "");
    EXPECT_EQ(broken(prepared + second("410", 400) + end("commit") + there), "I1 I11");
    EXPECT_EQ(broken(prepared + end("commit") + second("530", 520) + there), "");
    EXPECT_EQ(broken(prepared + end("rollback") + second("530", 520) + left("")), "I1");
}

TEST(checker, completion_by_the_portable_edition_is_written_at_the_call)
{
    const auto released = transaction(completed + "call 13 client=1 tx=1 do=extend by=token names=a of=1 at_most=50 "
                                                  "at=240\ndone 13 result=no before=240 after=241 at=245\n") +
                          left(" rows=a:110:12");
    EXPECT_EQ(broken(granted + released), "unexplained") << "the extension still holds the lock then";
    EXPECT_EQ(broken("history seed=1 edition=portable" + granted.substr(granted.find('\n')) + released), "");
}

} // namespace
