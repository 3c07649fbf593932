#include "by_hand.hpp"

namespace {

using namespace by_hand;

// Client 1 runs a command for tick 90. The call lasts from 100 to `end`; `answer` has the times of the command.
std::string run(const char *answer, const char *how = "", int end = 200)
{
    return std::string{"history seed=1\ncall 1 client=1 do=run by=session names=a at_most=1000 at_least=0 tick=90 "
                       "retry=yes"} +
           how + " at=100\ndone 1 " + answer + " at=" + std::to_string(end) + '\n';
}

constexpr const char *well = "result=yes token=110 begun=130 ended=180";
constexpr const char *broke_off = "result=lost token=110 begun=130";
const std::string is_gone = "call 8 client=1 do=gone of=1 at=240\ndone 8 result=yes at=250\n";

std::string left(const char *rows)
{
    return std::string{"call 9 client=0 do=effects at=2000\ndone 9 result=yes"} + rows + " at=2010\n";
}

TEST(checker, run_holds_its_lock_until_its_command_has_ended)
{
    const auto there = left(" rows=a:110:1");
    EXPECT_EQ(broken(run(well) + second("210", 205) + there), "");
    EXPECT_EQ(broken(run(well) + second("190", 185) + there), "") << "the run had ended, and its reply was on the way";
    EXPECT_EQ(broken(run(well) + second("150", 140) + there), "I1 I11");
    EXPECT_EQ(broken(run(well) + asks_for_tick(90, " retry=yes", "no", 220) + there), "") << "it was done";
    EXPECT_EQ(broken(run(well) + asks_for_tick(90, " retry=yes", "yes token=225", 220) + there), "tick");
    EXPECT_EQ(broken(run("result=no") + left("")), "unexplained");
    EXPECT_EQ(broken(run("result=yes token=110 begun=130 ended=1500", "", 1520) + second("1120", 1110) + there), "I11")
        << "its lease had ended, and another client had taken the lock, but it was committed";
}

TEST(checker, run_that_outlived_its_lease_has_nothing_to_release)
{
    const auto look = [](const char *until) {
        return std::string{"call 7 client=0 do=look names=a at=1600\ndone 7 result=yes rows=a:110:"} + until +
               " at=1610\n";
    };
    const auto failed = run("result=error state=22012 token=110 begun=130 ended=1500", " done=no", 1520);
    EXPECT_EQ(broken(failed + look("1110")), "");
    EXPECT_EQ(broken(failed + look("1099")), "I7");
}

TEST(checker, run_that_failed_is_due_again_at_once)
{
    const auto failed = run("result=error state=22012 token=110 begun=130 ended=180", " done=no");
    EXPECT_EQ(broken(failed + asks_for_tick(90, " retry=yes", "yes token=225", 220) + left("")), "");
    EXPECT_EQ(broken(failed + asks_for_tick(90, " retry=yes", "no", 220) + left("")), "unexplained");
    const auto kept = run("result=error state=22012 kept=yes token=110 begun=130 ended=180", " done=no");
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "no", 220) + left("")), "") << "it warned of that";
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "no", 1200) + left("")), "unexplained")
        << "but its lease has ended";
    EXPECT_EQ(broken(run("result=error state=22012 token=110 begun=130 ended=180") + left("")), "")
        << "the failure was not on purpose, but that does not matter";
    const auto cancelled = run("result=error state=57014 token=110 begun=130").replace(8, 0, "allow=57014 ");
    EXPECT_EQ(broken(cancelled + asks_for_tick(90, " retry=yes", "no", 220) + left("")), "")
        << "it may not have released the lock";
    EXPECT_EQ(broken(cancelled + asks_for_tick(90, " retry=yes", "no", 1200) + left("")), "unexplained")
        << "but its lease has ended";
    EXPECT_EQ(broken(run("result=error state=SL001 token=110 begun=130 ended=180") + left("")), "unexplained");
    EXPECT_EQ(broken(run("result=error state=SL001 token=110 begun=130 ended=1500", "", 1520) + second("1120", 1110) +
                     left("")),
              "");
    EXPECT_EQ(broken(run("result=error state=SL001 token=110 begun=130 ended=180") + second("150", 140) + left("")),
              "I1 unexplained")
        << "taken over while the lease was live";
}

TEST(checker, run_whose_session_is_gone_frees_its_lock_at_once)
{
    const auto again = [](const char *answer, int at) { return asks_for_tick(90, " retry=yes", answer, at); };
    EXPECT_EQ(broken(run(broke_off) + again("yes token=225", 220) + left("")), "") << "the session may be gone";
    EXPECT_EQ(broken(run(broke_off) + again("no", 260) + left("")), "") << "the session may still be there";
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("no", 245) + left("")), "") << "the session was just ending";
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("no", 260) + left("")), "unexplained");
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("no", 260) + left(" rows=a:110:1")), "") << "the reply was lost";
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("yes token=265", 260) + left(" rows=a:110:1")), "tick");
    EXPECT_EQ(broken(run(broke_off) + again("yes token=125", 115) + left("")), "I5")
        << "it was granted before the session ended";
    auto kept = run(broke_off);
    kept.replace(kept.find("at_least=0"), 10, "at_least=200");
    EXPECT_EQ(broken(kept + is_gone + again("no", 260) + left("")), "") << "kept for its at_least";
    EXPECT_EQ(broken(kept + is_gone + again("yes token=265", 260) + left("")), "I5");
    EXPECT_EQ(broken(first + is_gone + second("300", 290)), "I1") << "this holds only for runs";
}

TEST(checker, run_leaves_one_effect_per_tick)
{
    const auto next = [](int tick) {
        return "call 2 client=2 do=run by=session names=a at_most=1000 at_least=0 tick=" + std::to_string(tick) +
               " retry=yes at=300\ndone 2 result=lost token=310 begun=330 at=400\n";
    };
    EXPECT_EQ(broken(run(well) + left("")), "effect") << "no effect, although it was done";
    EXPECT_EQ(broken(run(well) + left(" rows=a:110:1,a:110:1")), "effect") << "twice";
    EXPECT_EQ(broken(run("result=error state=22012 token=110 begun=130", " done=no") + left(" rows=a:110:1")),
              "effect");
    EXPECT_EQ(broken(run("result=error state=57014 token=110 begun=130 ended=180").replace(8, 0, "allow=57014 ") +
                     left(" rows=a:110:1") + asks_for_tick(90, " retry=yes", "yes token=225", 220)),
              "tick")
        << "cancelled just after it had been committed";
    EXPECT_EQ(broken(run(broke_off) + left(" rows=a:110:1")), "");
    EXPECT_EQ(broken(run(broke_off) + next(290) + left(" rows=a:110:1,a:310:2")), "") << "two ticks";
    EXPECT_EQ(broken(run(broke_off) + next(90) + left(" rows=a:310:2")), "");
    EXPECT_EQ(broken(run(broke_off) + next(90) + left(" rows=a:110:1,a:310:2")), "effect tick");
    EXPECT_EQ(broken(run("result=lost") + next(90) + left(" rows=a:110:1,a:310:2")), "effect tick")
        << "there was no reply at all";
}

} // namespace
