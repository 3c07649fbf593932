// Histories by hand. Each rule is shown one that breaks it, and good ones that come close. (Without a wall clock, it
// shows the same as the monotonic one.)
#include "checker.hpp"

#include <gtest/gtest.h>
#include <set>
#include <sstream>

namespace {

std::string with_wall_clock(std::string const &text)
{
    std::istringstream in{text};
    std::string whole;
    for (std::string line; std::getline(in, line);) {
        auto const at = line.find(" at=");
        if (at != line.npos && line.find(" wall=") == line.npos)
            line += " wall=" + line.substr(at + 4, line.find(' ', at + 4) - at - 4);
        whole += line + '\n';
    }
    return whole;
}

// The rules that are broken, each once: "I1 I6", or "" for none.
std::string broken(std::string const &text)
{
    std::istringstream in{with_wall_clock(text)};
    std::set<std::string> rules;
    for (auto const &one : checker::check(history::read(in)))
        rules.insert(one.rule);
    std::string all;
    for (auto const &rule : rules)
        all += (all.empty() ? "" : " ") + rule;
    return all;
}

// Client 1 is granted a at 110, until 1110.
std::string const first = R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 1 result=yes token=110 before=105 after=115 until=1110 at=120
)";

std::string second(std::string const &token, int at)
{
    auto const text = [](int time) { return std::to_string(time); };
    return "call 2 client=2 do=acquire by=token names=a at_most=1000 at_least=0 at=" + text(at) +
           "\ndone 2 result=yes token=" + token + " before=" + text(at + 5) + " after=" + text(at + 15) +
           " at=" + text(at + 20) + '\n';
}

// ---- I1 ----

TEST(checker, I1_sees_a_grant_during_a_lease)
{
    EXPECT_EQ(broken(first + second("510", 500)), "I1");
}

TEST(checker, I1_allows_a_grant_at_the_very_end_of_a_lease)
{
    EXPECT_EQ(broken(first + second("1110", 1100)), "");
    EXPECT_EQ(broken(first + second("1109", 1100)), "I1") << "one microsecond early";
}

TEST(checker, I1_sees_two_grants_that_were_asked_for_at_once)
{
    EXPECT_EQ(broken(first + second("112", 101)), "I1");
}

TEST(checker, I1_allows_a_grant_after_a_release)
{
    auto const release = R"(call 3 client=1 do=release by=token names=a of=1 at=200
done 3 result=yes before=205 after=206 at=220
)";
    EXPECT_EQ(broken(first + release + second("260", 250)), "");
    EXPECT_EQ(broken(first + release + second("215", 205)), "") << "while the reply to the release was on its way";
    EXPECT_EQ(broken(first + second("160", 150) + release), "I1 I4") << "before the release";
}

TEST(checker, I1_knows_that_a_lost_release_may_have_happened)
{
    EXPECT_EQ(broken(first + "call 3 client=1 do=release by=token names=a of=1 at=200\n" + second("260", 250)), "");
    EXPECT_EQ(broken(first + "call 3 client=1 do=release by=token names=a of=1 at=200\ndone 3 result=lost at=220\n" +
                     second("260", 250)),
              "");
    EXPECT_EQ(
        broken(first +
               "call 3 client=1 do=release by=token names=a of=1 at=200\ndone 3 result=error state=57014 at=220\n" +
               second("260", 250)),
        "I1 unexplained");
}

TEST(checker, I1_follows_extends)
{
    auto const longer = R"(call 3 client=1 do=extend by=token names=a of=1 at_most=1000 at=600
done 3 result=yes before=605 after=615 at=620
)";
    EXPECT_EQ(broken(first + longer + second("1200", 1190)), "I1");
    EXPECT_EQ(broken(first + longer + second("1616", 1606)), "");
    auto const shorter = R"(call 3 client=1 do=extend by=token names=a of=1 at_most=100 at=600
done 3 result=yes before=605 after=615 at=620
)";
    EXPECT_EQ(broken(first + shorter + second("720", 710)), "");
    EXPECT_EQ(broken(first + shorter + second("700", 690)), "I1");
}

TEST(checker, I1_knows_that_an_extend_may_be_asked_for_twice)
{
    auto const history = [](char const *head, char const *by) {
        return std::string{head} + "call 1 client=1 do=acquire by=" + by +
               " names=a at_most=1000 at_least=0 at=100\ndone 1 result=yes token=110 before=105 after=115 at=120\n"
               "call 3 client=1 do=extend by=" +
               by + " names=a of=1 at_most=50 at=200\ndone 3 result=no at=300\n" + second("320", 310);
    };
    EXPECT_EQ(broken(history("history seed=1 allow=57P01\n", "library")), "")
        << "the first reply was lost, and when the library asked again, the lease was over that it had cut itself";
    EXPECT_EQ(broken(history("history seed=1\n", "library")), "I1 unexplained") << "replies do not get lost";
    EXPECT_EQ(broken(history("history seed=1 allow=57P01\n", "token")), "I1 unexplained") << "these ask once";
}

TEST(checker, I1_counts_what_an_open_transaction_holds)
{
    std::string const open = R"(history seed=1
call 1 client=1 tx=1 do=start at=90
done 1 result=yes at=95
call 2 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 2 result=yes token=110 before=105 after=115 at=120
)";
    auto const rollback = R"(call 3 client=1 tx=1 do=rollback at=400
done 3 result=yes at=420
)";
    auto const other = [](int at) {
        auto const t = std::to_string(at);
        return "call 4 client=2 do=acquire by=token names=a at_most=10 at_least=0 at=" + t +
               "\ndone 4 result=yes token=" + std::to_string(at + 2) + " at=" + std::to_string(at + 5) + '\n';
    };
    EXPECT_EQ(broken(open + other(300) + rollback), "I1");
    EXPECT_EQ(broken(open + rollback + other(430)), "");
    EXPECT_EQ(broken(open + other(398) + rollback), "") << "it may have been granted when the rollback was over";
    EXPECT_EQ(broken(open + other(300)), "") << "the session may have died meanwhile";
    EXPECT_EQ(
        broken(open +
               "call 3 client=1 tx=1 do=guard by=token names=b of=0 at=200\ndone 3 result=error state=SL001 at=220\n" +
               other(300) + rollback),
        "")
        << "an error has ended the transaction";
}

TEST(checker, I1_knows_what_a_transaction_did_before_its_client_died)
{
    EXPECT_EQ(broken(first + R"(call 2 client=1 tx=1 do=start at=200
done 2 result=yes at=210
call 3 client=1 tx=1 do=release by=token names=a of=1 at=220
done 3 result=yes at=230
call 4 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=240
done 4 result=yes token=245 at=250
)"),
              "");
}

TEST(checker, I1_forgets_what_a_savepoint_takes_back)
{
    std::string const undone = R"(history seed=1
call 1 client=1 tx=1 do=start at=90
done 1 result=yes at=91
call 2 client=1 tx=1 do=savepoint at=92
done 2 result=yes at=93
call 3 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 3 result=yes token=110 at=120
call 4 client=1 tx=1 do=)";
    auto const rest = R"( at=130
done 4 result=yes at=140
call 5 client=1 tx=1 do=commit at=150
done 5 result=yes at=160
call 6 client=2 do=acquire by=token names=a at_most=10 at_least=0 at=170
done 6 result=yes token=175 at=180
)";
    EXPECT_EQ(broken(undone + "undo" + rest), "");
    EXPECT_EQ(broken(undone + "keep" + rest), "I1");
}

TEST(checker, I1_allows_for_a_wall_clock_that_stepped)
{
    auto const text = [](char const *wall) {
        return std::string{R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100 wall=100
done 1 result=yes token=110 at=120 wall=120
call 2 client=2 do=acquire by=token names=a at_most=1000 at_least=0 at=500 wall=)"} +
               wall + "\ndone 2 result=yes token=1110 at=520 wall=1120\n";
    };
    EXPECT_EQ(broken(text("1100")), "") << "forward by 600";
}

TEST(checker, I1_knows_that_a_lease_runs_from_the_clock_not_from_the_tick)
{
    auto const ahead = R"(history seed=1
call 1 client=1 do=acquire by=library names=a at_most=1000 at_least=0 tick=300 at=100
done 1 result=yes token=300 at=400
)";
    EXPECT_EQ(broken(ahead + second("1210", 1200)), "");
    EXPECT_EQ(broken(ahead + second("1090", 1080)), "I1");
}

TEST(checker, I1_sees_a_client_that_trusts_its_lease_too_long)
{
    auto const trusting = [](char const *trust) {
        return std::string{
                   "history seed=1\ncall 1 client=1 do=acquire by=library names=a at_most=1000 at_least=0 at=100\n"
                   "done 1 result=yes token=110 trust="} +
               trust + " at=400\n";
    };
    EXPECT_EQ(broken(trusting("1110")), "");
    EXPECT_EQ(broken(trusting("1111")), "I1");
}

// ---- I4 ----

TEST(checker, I4_sees_a_release_by_one_who_lost_the_lock)
{
    auto const release = [](int at) {
        auto const t = std::to_string(at);
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

TEST(checker, I4_sees_a_change_by_one_who_never_had_it)
{
    EXPECT_EQ(
        broken(first + "call 3 client=2 do=extend by=session names=a at_most=5 at=200\ndone 3 result=yes at=210\n"),
        "I4");
    EXPECT_EQ(
        broken(first + "call 3 client=2 do=extend by=session names=a at_most=5 at=200\ndone 3 result=no at=210\n"), "");
}

TEST(checker, I12_sees_a_release_of_what_was_rolled_back)
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

TEST(checker, I1_sees_two_who_count_on_it_at_the_same_time)
{
    auto const claims = [](int last, int next) {
        auto const text = [](int time) { return std::to_string(time); };
        return "call 3 client=2 do=acquire by=library names=a at_most=1000 at_least=0 keep_alive=yes at=" +
               text(next - 10) + "\ndone 3 result=yes token=" + text(next - 5) + " at=" + text(next) +
               "\ncall 4 client=1 do=release by=token names=a of=1 at=3000\ndone 4 result=no trust=" + text(last) +
               " at=3010\ncall 5 client=2 do=release by=library names=a of=3 at=3020\ndone 5 result=yes trust=2500 "
               "at=3030\n";
    };
    EXPECT_EQ(broken(first + claims(1499, 1500)), "");
    EXPECT_EQ(broken(first + claims(1500, 1500)), "I1");
}

// ---- I5, tick, I6 ----

TEST(checker, I5_sees_a_grant_within_at_least)
{
    auto const kept = [](int at) {
        return R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=300 at=100
done 1 result=yes token=110 at=120
call 3 client=1 do=release by=token names=a of=1 at=200
done 3 result=yes before=205 after=206 at=220
)" + second(std::to_string(at + 10), at);
    };
    EXPECT_EQ(broken(kept(390)), "I5");
    EXPECT_EQ(broken(kept(400)), "") << "exactly at its end";
}

TEST(checker, tick_sees_a_second_run)
{
    auto const run = [](int number, int at, int tick) {
        auto const n = std::to_string(number), t = std::to_string(at);
        return "call " + n +
               " client=1 do=acquire by=token names=a at_most=50 at_least=0 tick=" + std::to_string(tick) + " at=" + t +
               "\ndone " + n + " result=yes token=" + std::to_string(at + 5) + " at=" + std::to_string(at + 9) + '\n';
    };
    EXPECT_EQ(broken("history seed=1\n" + run(1, 100, 90) + run(2, 200, 90)), "tick");
    EXPECT_EQ(broken("history seed=1\n" + run(1, 100, 90) + run(2, 200, 190)), "");
    std::string const begin =
        "history seed=1\ncall 1 client=2 do=acquire by=token names=a at_most=50 at_least=0 tick=90 at=100\n";
    std::string const end = "done 1 result=yes token=405 at=409\n";
    EXPECT_EQ(broken(begin + run(2, 200, 90) + end), "tick");
    EXPECT_EQ(
        broken(begin + run(2, 200, 90) + "call 9 client=0 do=revoke names=a at=300\ndone 9 result=yes at=310\n" + end),
        "")
        << "deleted before the one that was called first";
}

// A turn of client 1 at tick 90, which its release at 220 says was done, or was not.
std::string turn(char const *said)
{
    return std::string{R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 tick=90 at=100
done 1 result=yes token=110 at=120
call 2 client=1 do=release by=token names=a of=1)"} +
           said + " at=200\ndone 2 result=yes before=205 after=206 at=220\n";
}

std::string asks_for_tick(int tick, char const *retry, char const *answer, int at = 300)
{
    auto const text = [](int number) { return std::to_string(number); };
    return "call 3 client=2 do=acquire by=token names=a at_most=50 at_least=0 tick=" + text(tick) + retry +
           " at=" + text(at) + "\ndone 3 result=" + answer + " at=" + text(at + 20) + '\n';
}

TEST(checker, tick_knows_that_with_retry_only_what_is_done_counts)
{
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, " retry=yes", "yes token=310")), "");
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, "", "yes token=310")), "tick") << "who does not say retry";
    EXPECT_EQ(broken(turn("") + asks_for_tick(90, " retry=yes", "yes token=310")), "tick") << "it was done";
    EXPECT_EQ(broken(turn("") + asks_for_tick(105, " retry=yes", "yes token=310")), "tick")
        << "late, it was done for this tick, too";
    EXPECT_EQ(broken(turn("") + asks_for_tick(111, " retry=yes", "yes token=310")), "") << "the next tick";
    EXPECT_EQ(broken(turn("") + "call 9 client=0 do=revoke names=a at=250\ndone 9 result=yes at=260\n" +
                     asks_for_tick(90, " retry=yes", "yes token=310")),
              "")
        << "nobody knows any more";
    EXPECT_EQ(broken(turn("").replace(8, 0, "crashes=yes ") + asks_for_tick(90, " retry=yes", "yes token=310")), "tick")
        << "a crash forgets releases, but not that one";
}

TEST(checker, tick_sees_that_what_is_due_was_refused)
{
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, " retry=yes", "no")), "unexplained");
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, "", "no")), "") << "it had its turn";
    EXPECT_EQ(broken(turn("") + asks_for_tick(90, " retry=yes", "no")), "") << "it was done";
    EXPECT_EQ(
        broken(turn(" done=no").replace(turn("").find("tick=90 "), 8, "") + asks_for_tick(90, " retry=yes", "no")), "")
        << "who had no tick had all of them";
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(89, " retry=yes", "no")), "") << "there was a later one";
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, " retry=yes", "no", 210)), "") << "just being released";
    EXPECT_EQ(broken(turn("") + asks_for_tick(111, "", "no")), "unexplained") << "the next tick, with retry or without";
    EXPECT_EQ(broken(turn(" done=no") + "call 9 client=0 do=force names=a at=250\ndone 9 result=yes at=260\n" +
                     asks_for_tick(90, " retry=yes", "no")),
              "")
        << "force knows nothing of ticks";
    auto kept = turn(" done=no");
    kept.replace(kept.find("at_least=0"), 10, "at_least=200");
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "no")), "") << "at_least";
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "yes token=305")), "I5");
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "no", 320)), "unexplained") << "that is over";
    std::string const ran_out =
        "history seed=1\ncall 1 client=1 do=acquire by=token names=a at_most=50 at_least=0 tick=90 "
        "at=100\ndone 1 result=yes token=110 until=160 at=120\n";
    EXPECT_EQ(broken(ran_out + asks_for_tick(90, " retry=yes", "no")), "unexplained") << "it ran out";
    EXPECT_EQ(broken(ran_out + asks_for_tick(90, " retry=yes", "yes token=310")), "");
    EXPECT_EQ(broken(ran_out + asks_for_tick(90, "", "no")), "");
}

// ---- Runs ----

// Client 1 runs a command at tick 90, which lasts from 130 to 180, if it comes so far.
std::string run(char const *answer, char const *how = "", int end = 200)
{
    return std::string{"history seed=1\ncall 1 client=1 do=run by=session names=a at_most=1000 at_least=0 tick=90 "
                       "retry=yes"} +
           how + " at=100\ndone 1 " + answer + " at=" + std::to_string(end) + '\n';
}

constexpr char const *well = "result=yes token=110 begun=130 ended=180";
constexpr char const *broke_off = "result=lost token=110 begun=130";
std::string const is_gone = "call 8 client=1 do=gone of=1 at=240\ndone 8 result=yes at=250\n";

std::string left(char const *rows)
{
    return std::string{"call 9 client=0 do=effects at=2000\ndone 9 result=yes"} + rows + " at=2010\n";
}

TEST(checker, run_holds_its_lock_until_its_command_has_ended)
{
    auto const there = left(" rows=a:110:1");
    EXPECT_EQ(broken(run(well) + second("210", 205) + there), "");
    EXPECT_EQ(broken(run(well) + second("190", 185) + there), "") << "the reply was on its way";
    EXPECT_EQ(broken(run(well) + second("150", 140) + there), "I1 I11");
    EXPECT_EQ(broken(run(well) + asks_for_tick(90, " retry=yes", "no", 220) + there), "") << "it was done";
    EXPECT_EQ(broken(run(well) + asks_for_tick(90, " retry=yes", "yes token=225", 220) + there), "tick");
    EXPECT_EQ(broken(run("result=no") + left("")), "unexplained");
    EXPECT_EQ(broken(run("result=yes token=110 begun=130 ended=1500", "", 1520) + second("1120", 1110) + there), "I11")
        << "its lease was over, somebody else had come, and it committed all the same";
}

TEST(checker, run_that_overran_has_nothing_to_release)
{
    auto const look = [](char const *until) {
        return std::string{"call 7 client=0 do=look names=a at=1600\ndone 7 result=yes rows=a:110:"} + until +
               " at=1610\n";
    };
    auto const failed = run("result=error state=22012 token=110 begun=130 ended=1500", " done=no", 1520);
    EXPECT_EQ(broken(failed + look("1110")), "");
    EXPECT_EQ(broken(failed + look("1099")), "I7");
}

TEST(checker, run_that_failed_is_due_again_at_once)
{
    auto const failed = run("result=error state=22012 token=110 begun=130 ended=180", " done=no");
    EXPECT_EQ(broken(failed + asks_for_tick(90, " retry=yes", "yes token=225", 220) + left("")), "");
    EXPECT_EQ(broken(failed + asks_for_tick(90, " retry=yes", "no", 220) + left("")), "unexplained");
    EXPECT_EQ(broken(run("result=error state=22012 token=110 begun=130 ended=180") + left("")), "")
        << "it was not told to, but what of it";
    auto const cancelled = run("result=error state=57014 token=110 begun=130").replace(8, 0, "allow=57014 ");
    EXPECT_EQ(broken(cancelled + asks_for_tick(90, " retry=yes", "no", 220) + left("")), "")
        << "it may not have come to the release";
    EXPECT_EQ(broken(cancelled + asks_for_tick(90, " retry=yes", "no", 1200) + left("")), "unexplained")
        << "but its lease is over";
    EXPECT_EQ(broken(run("result=error state=SL001 token=110 begun=130 ended=180") + left("")), "unexplained");
    EXPECT_EQ(broken(run("result=error state=SL001 token=110 begun=130 ended=1500", "", 1520) + second("1120", 1110) +
                     left("")),
              "");
    EXPECT_EQ(broken(run("result=error state=SL001 token=110 begun=130 ended=180") + second("150", 140) + left("")),
              "I1 unexplained")
        << "taken over while it was live";
}

TEST(checker, run_whose_session_is_gone_is_free_at_once)
{
    auto const again = [](char const *answer, int at) { return asks_for_tick(90, " retry=yes", answer, at); };
    EXPECT_EQ(broken(run(broke_off) + again("yes token=225", 220) + left("")), "") << "it may be";
    EXPECT_EQ(broken(run(broke_off) + again("no", 260) + left("")), "") << "nobody knows";
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("no", 245) + left("")), "") << "it was just going";
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("no", 260) + left("")), "unexplained");
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("no", 260) + left(" rows=a:110:1")), "") << "the reply was lost";
    EXPECT_EQ(broken(run(broke_off) + is_gone + again("yes token=265", 260) + left(" rows=a:110:1")), "tick");
    EXPECT_EQ(broken(run(broke_off) + again("yes token=125", 115) + left("")), "I5") << "not before it went";
    auto kept = run(broke_off);
    kept.replace(kept.find("at_least=0"), 10, "at_least=200");
    EXPECT_EQ(broken(kept + is_gone + again("no", 260) + left("")), "") << "at_least";
    EXPECT_EQ(broken(kept + is_gone + again("yes token=265", 260) + left("")), "I5");
    EXPECT_EQ(broken(first + is_gone + second("300", 290)), "I1") << "only a run's";
}

TEST(checker, run_leaves_one_effect_a_tick)
{
    auto const next = [](int tick) {
        return "call 2 client=2 do=run by=session names=a at_most=1000 at_least=0 tick=" + std::to_string(tick) +
               " retry=yes at=300\ndone 2 result=lost token=310 begun=330 at=400\n";
    };
    EXPECT_EQ(broken(run(well) + left("")), "effect") << "none, though it was done";
    EXPECT_EQ(broken(run(well) + left(" rows=a:110:1,a:110:1")), "effect") << "twice";
    EXPECT_EQ(broken(run("result=error state=22012 token=110 begun=130", " done=no") + left(" rows=a:110:1")),
              "effect");
    EXPECT_EQ(broken(run("result=error state=57014 token=110 begun=130 ended=180").replace(8, 0, "allow=57014 ") +
                     left(" rows=a:110:1") + asks_for_tick(90, " retry=yes", "yes token=225", 220)),
              "tick")
        << "cancelled when it had just been committed";
    EXPECT_EQ(broken(run(broke_off) + left(" rows=a:110:1")), "");
    EXPECT_EQ(broken(run(broke_off) + next(290) + left(" rows=a:110:1,a:310:2")), "") << "two ticks";
    EXPECT_EQ(broken(run(broke_off) + next(90) + left(" rows=a:310:2")), "");
    EXPECT_EQ(broken(run(broke_off) + next(90) + left(" rows=a:110:1,a:310:2")), "effect tick");
    EXPECT_EQ(broken(run("result=lost") + next(90) + left(" rows=a:110:1,a:310:2")), "effect tick")
        << "nothing was heard of it";
}

TEST(checker, I6_sees_a_token_that_did_not_grow)
{
    EXPECT_EQ(broken(first + second("1120", 1110)), "");
    auto const repeated = R"(call 2 client=2 do=acquire by=token names=a at_most=10 at_least=0 at=1200
done 2 result=yes token=110 before=1205 after=1210 at=1220
)";
    EXPECT_EQ(broken(first + repeated), "I6");
    EXPECT_EQ(broken(first + "call 9 client=0 do=revoke names=a at=300\ndone 9 result=yes at=310\n" + repeated), "I6")
        << "even if the row was deleted";
}

// ---- I11 ----

std::string guarded(int commit_at, std::string const &commit_result)
{
    auto const t = std::to_string(commit_at);
    return R"(call 11 client=1 tx=1 do=start at=900
done 11 result=yes at=910
call 12 client=1 tx=1 do=guard by=token names=a of=1 at=920
done 12 result=yes at=930
call 13 client=1 tx=1 do=commit at=)" +
           t + "\ndone 13 " + commit_result + " at=" + std::to_string(commit_at + 10) + '\n';
}

TEST(checker, I11_sees_a_guarded_commit_after_a_later_acquisition)
{
    EXPECT_EQ(broken(first + guarded(1050, "result=yes") + second("1120", 1110)), "");
    EXPECT_EQ(broken(first + guarded(1500, "result=yes")), "") << "the lease is over, but nobody else has come";
    EXPECT_EQ(broken(first + guarded(1500, "result=yes") + second("1120", 1110)), "I11");
    EXPECT_EQ(broken("history seed=1 edition=portable\n" + first.substr(first.find('\n') + 1) +
                     guarded(1500, "result=yes") + second("1120", 1110)),
              "I11");
    EXPECT_EQ(broken(first + guarded(1500, "result=error state=SL001") + second("1120", 1110)), "");
    EXPECT_EQ(broken(first + guarded(1125, "result=yes") + second("1120", 1110)), "")
        << "granted when the commit was over, perhaps";
}

TEST(checker, I11_sees_a_guarded_commit_after_the_row_was_deleted)
{
    std::string const call = "call 9 client=0 do=revoke names=a at=940\n";
    EXPECT_EQ(broken(first + guarded(1000, "result=yes") + call + "done 9 result=yes at=950\n"), "I11");
    EXPECT_EQ(broken(first + guarded(1000, "result=yes") + call + "done 9 result=no at=950\n"), "") << "there was none";
}

TEST(checker, I11_sees_a_row_that_came_after_a_later_holder_had_looked)
{
    auto const holder = [](char const *ledger) {
        return std::string{R"(call 2 client=2 do=acquire by=token names=a at_most=1000 at_least=0 at=1110
done 2 result=yes token=1120 ledger=)"} +
               ledger + " at=1130\n";
    };
    EXPECT_EQ(broken(first + guarded(1125, "result=yes") + holder("0")), "I11");
    EXPECT_EQ(broken(first + guarded(1125, "result=yes") + holder("1")), "");
    EXPECT_EQ(broken(first + guarded(1125, "result=lost") + holder("0")), "");
}

// ---- A "no" and an SL001 need a reason ----

// Of client 2, who uses client 1's token.
std::string told(char const *what, int at, char const *answer, char const *tx = "")
{
    return std::string{"call 30 client=2 do="} + what + tx +
           " by=token names=a of=1 at_most=5 at=" + std::to_string(at) + "\ndone 30 " + answer +
           " at=" + std::to_string(at + 10) + '\n';
}
constexpr char const *lost = "result=error state=SL001";

TEST(checker, sees_that_the_holder_was_not_obeyed)
{
    for (auto const *const what : {"extend", "release"}) {
        EXPECT_EQ(broken(first + told(what, 200, "result=no")), "unexplained") << what;
        EXPECT_EQ(broken(first + told(what, 1105, "result=no")), "") << what << " at the end of the lease";
        EXPECT_EQ(broken(first + "call 9 client=0 do=revoke names=a at=205\ndone 9 result=yes at=206\n" +
                         told(what, 200, "result=no")),
                  "")
            << what << " while the row was deleted";
        EXPECT_EQ(broken(first + "call 9 client=0 do=revoke names=a at=205\ndone 9 result=no at=206\n" +
                         told(what, 200, "result=no")),
                  "unexplained")
            << what << " while a DELETE found no row";
    }
    std::string const java = R"(history seed=1
call 1 client=1 do=acquire by=java names=a at_most=1000 at=100
done 1 result=yes token=110 until=1110 at=120
call 2 client=1 do=extend by=java names=a of=1 at_most=5 at=)";
    EXPECT_EQ(broken(java + "200\ndone 2 result=no at=210\n"), "unexplained");
    EXPECT_EQ(broken(java + "1105\ndone 2 result=no at=1115\n"), "");
}

TEST(checker, knows_that_of_several_one_may_have_been_lost)
{
    std::string const both = R"(history seed=1
call 1 client=1 do=acquire by=token names=a,b at_most=1000 at_least=0 at=100
done 1 result=yes token=110 before=105 after=115 at=120
)";
    std::string const refused =
        "call 3 client=1 do=extend by=token names=a,b of=1 at_most=5 at=200\ndone 3 result=no at=210\n";
    EXPECT_EQ(broken(both + refused), "unexplained");
    EXPECT_EQ(
        broken(both + "call 2 client=1 do=release by=token names=b of=1 at=150\ndone 2 result=yes at=160\n" + refused),
        "");
}

TEST(checker, knows_who_else_may_have_released_it)
{
    auto const release = [](int at, char const *result) {
        return "call 3 client=1 do=release by=token names=a of=1 at=" + std::to_string(at) + "\ndone 3 " + result +
               " at=" + std::to_string(at + 20) + '\n';
    };
    for (auto const *const what : {"extend", "release"}) {
        EXPECT_EQ(broken(first + release(190, "result=yes") + told(what, 200, "result=no")), "")
            << what << " meanwhile";
        EXPECT_EQ(broken(first + told(what, 200, "result=no") + release(209, "result=yes")), "") << what << " just so";
        EXPECT_EQ(broken(first + told(what, 200, "result=no") + release(211, "result=yes")), "unexplained")
            << what << " too early";
        EXPECT_EQ(broken(first + release(150, "result=lost") + told(what, 200, "result=no")), "")
            << what << ", perhaps";
        EXPECT_EQ(broken(first + release(150, "result=no") + told(what, 300, "result=yes")), "unexplained")
            << "not by that one";
    }
}

TEST(checker, knows_that_of_two_who_extend_at_once_either_may_be_the_last)
{
    auto const extend = [](int number, int client, int at_most, int at) {
        auto const n = std::to_string(number);
        return "call " + n + " client=" + std::to_string(client) +
               " do=extend by=token names=a of=1 at_most=" + std::to_string(at_most) + " at=" + std::to_string(at) +
               "\ndone " + n + " result=yes at=" + std::to_string(at + 20) + '\n';
    };
    EXPECT_EQ(broken(first + extend(3, 1, 50, 200) + extend(4, 2, 500, 210) + told("extend", 400, "result=no")), "");
    EXPECT_EQ(broken(first + extend(3, 1, 50, 200) + extend(4, 2, 500, 221) + told("extend", 400, "result=no")),
              "unexplained");
    EXPECT_EQ(broken(first + extend(3, 1, 200, 200) + extend(4, 2, 500, 210) + told("extend", 350, "result=no")),
              "unexplained")
        << "either lasts";
    auto const release = "call 5 client=1 do=release by=token names=a of=1 at=200\ndone 5 result=yes at=240\n";
    auto const cut = [](int at) {
        return "call 6 client=2 do=extend by=token names=a of=1 at_most=500 at_least=10 at=" + std::to_string(at) +
               "\ndone 6 result=yes at=" + std::to_string(at + 5) + '\n';
    };
    auto const kept = "call 3 client=1 do=extend by=token names=a of=1 at_most=500 at_least=400 at=150\n"
                      "done 3 result=yes at=160\n";
    EXPECT_EQ(broken(first + kept + release + cut(205) + second("310", 300)), "") << "extended, then released";
    EXPECT_EQ(broken(first + kept + release + second("310", 300)), "I5");
}

TEST(checker, knows_that_one_who_asks_again_is_the_last)
{
    std::string const text = R"(call 3 client=1 do=extend by=library names=a of=1 at_most=50 at=200
done 3 result=lost at=210
call 4 client=1 do=extend by=library names=a of=1 at_most=500 at=230
done 4 result=yes at=240
)";
    EXPECT_EQ(broken(first + text + told("extend", 400, "result=no")), "unexplained");
}

TEST(checker, knows_that_what_is_kept_is_not_live)
{
    std::string kept = first;
    kept.replace(kept.find("at_least=0"), 10, "at_least=900");
    auto const release = "call 3 client=1 do=release by=token names=a of=1 at=150\ndone 3 result=yes at=160\n";
    EXPECT_EQ(broken(kept + release + told("extend", 200, "result=no")), "");
    EXPECT_EQ(broken(kept + told("extend", 200, "result=no")), "unexplained");
}

TEST(checker, knows_that_a_grant_is_others_only_when_it_is_committed)
{
    std::string const open = R"(history seed=1
call 1 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 1 result=yes token=110 at=120
call 2 client=1 tx=1 do=commit at=190
done 2 )";
    EXPECT_EQ(broken(open + "result=yes at=195\n" + told("extend", 200, "result=no")), "unexplained");
    EXPECT_EQ(broken(open + "result=yes at=201\n" + told("extend", 200, "result=no")), "");
    EXPECT_EQ(broken(open + "result=lost at=195\n" + told("extend", 200, "result=no")), "");
    EXPECT_EQ(broken(open + "result=yes at=201\n" + told("guard", 200, lost)), "");
    EXPECT_EQ(broken(open + "result=error state=SL001 at=195\n" + told("extend", 200, "result=no")), "unexplained")
        << "it guarded none";
}

TEST(checker, I11_sees_a_guard_that_fails_for_no_reason)
{
    EXPECT_EQ(broken(first + told("guard", 200, lost)), "unexplained");
    EXPECT_EQ(broken(first + told("guard", 200, "result=no")), "unexplained") << "the library's word for it";
    EXPECT_EQ(broken(first + told("guard", 2000, lost)), "unexplained") << "a lease that ran out is no reason";
    EXPECT_EQ(broken(first + "call 3 client=1 do=release by=token names=a of=1 at=150\ndone 3 result=yes at=160\n" +
                     told("guard", 200, lost)),
              "unexplained")
        << "nor is a release";
    EXPECT_EQ(broken("history seed=1\n" + told("guard", 200, lost)), "") << "it never had it";
    EXPECT_EQ(broken(first + second("1120", 1110) + told("guard", 1200, lost)), "") << "taken over";
    EXPECT_EQ(broken(first + told("guard", 1200, lost) + second("1210", 1205)), "") << "meanwhile";
    EXPECT_EQ(broken(first + told("guard", 1200, lost) + second("1220", 1211)), "unexplained") << "too late";
    EXPECT_EQ(broken(second("60", 50) + first.substr(first.find("call")) + told("guard", 1200, lost)), "I1 unexplained")
        << "not by an earlier one";
    auto const by = [](char const *what, char const *answer) {
        return "call 2 client=3 " + std::string{what} + " by=token at_most=5 at=1150\ndone 2 " + answer + " at=1210\n";
    };
    EXPECT_EQ(broken(first + by("do=acquire names=a", "result=lost") + told("guard", 1300, lost)), "") << "perhaps";
    EXPECT_EQ(broken(first + by("do=acquire names=a", "result=lost") + told("guard", 300, lost)), "unexplained")
        << "not that early";
    EXPECT_EQ(
        broken(first + "call 2 client=3 do=acquire by=token names=a at_most=5 at=150\n" + told("guard", 300, lost)),
        "unexplained")
        << "perhaps, but not while the lease ran";
    auto const refused = [](char const *maker) {
        return std::string{"call 2 client=3 do=acquire names=a at_most=5 by="} + maker +
               " at=1100\ndone 2 result=no at=1210\n";
    };
    EXPECT_EQ(broken(first + refused("token") + told("guard", 1200, lost)), "unexplained") << "it was refused";
    EXPECT_EQ(broken(first + "history allow=57P01\n" + refused("library") + told("guard", 1200, lost)), "")
        << "granted, perhaps, and the reply was lost";
    EXPECT_EQ(broken(first + "history allow=57P01\n" + refused("token") + told("guard", 1200, lost)), "unexplained");
    EXPECT_EQ(broken(first + by("do=acquire names=a,b", "result=no") + told("guard", 1200, lost)), "")
        << "had it until it was refused b";
    EXPECT_EQ(broken(first + by("do=acquire names=a,b", "result=no") + told("guard", 1211, lost)), "unexplained")
        << "not any longer";
    EXPECT_EQ(broken(first + by("do=force names=a", "result=no") + told("guard", 1300, lost)), "")
        << "it has a new token now";
    EXPECT_EQ(broken(first + by("do=revoke names=a", "result=lost") + told("guard", 1300, lost)), "")
        << "deleted, perhaps";
}

TEST(checker, I11_knows_that_a_run_that_was_cancelled_may_have_had_the_lock)
{
    auto const in_vain =
        "call 2 client=1 do=release by=token names=a of=1 at=150\ndone 2 result=yes at=160\n"
        "call 3 client=2 do=run by=session names=a at_most=9 at=170\ndone 3 result=error state=57014 at=190\n";
    auto const allowed = "history allow=57014\n";
    EXPECT_EQ(broken(first + allowed + in_vain + told("guard", 200, lost)), "") << "it had it, perhaps";
    EXPECT_EQ(broken(first + allowed + told("guard", 200, lost)), "unexplained");
}

TEST(checker, I11_sees_a_guarded_commit_that_fails_for_no_reason)
{
    EXPECT_EQ(broken(first + guarded(1000, lost)), "unexplained");
    EXPECT_EQ(broken(first + guarded(1500, lost)), "unexplained") << "the lease is over, but nobody else has come";
    EXPECT_EQ(broken(first + guarded(1500, lost) + second("1505", 1500)), "");
    auto const prepared = [](std::string text) { return text.replace(text.find("do=commit"), 9, "do=prepare"); };
    EXPECT_EQ(broken(first + prepared(guarded(1500, lost))), "unexplained");
    EXPECT_EQ(broken(first + prepared(guarded(1500, lost)) + second("1505", 1500)), "");
    auto const within = [](char const *what) {
        return "call 20 client=1 tx=1 do=" + std::string{what} +
               " by=token names=b at_most=500 at=940\ndone 20 result=yes token=945 at=950\n";
    };
    auto const guard_b = "call 21 client=1 tx=1 do=guard by=token names=b of=20 at=960\ndone 21 result=yes at=970\n";
    auto const gone = [](char const *name) {
        return std::string{"call 9 client=0 do=revoke names="} + name + " at=975\ndone 9 result=yes at=980\n";
    };
    EXPECT_EQ(broken(first + within("acquire") + guard_b + guarded(1000, lost)), "unexplained")
        << "of two, none was lost";
    EXPECT_EQ(broken(first + within("acquire") + guard_b + guarded(1000, lost) + gone("b")), "") << "one is enough";
    auto const undone = "call 22 client=1 tx=1 do=savepoint at=935\ndone 22 result=yes at=936\n" + within("acquire") +
                        guard_b + "call 23 client=1 tx=1 do=undo at=985\ndone 23 result=yes at=986\n";
    EXPECT_EQ(broken(first + undone + guarded(1000, lost) + gone("b")), "unexplained") << "that guard was taken back";
    EXPECT_EQ(broken(first + undone + guarded(1000, lost) + gone("a")), "");
    EXPECT_EQ(
        broken(undone +
               "call 24 client=1 tx=1 do=extend by=token names=b of=20 at_most=5 at=990\ndone 24 result=no at=991\n"),
        "")
        << "so was that acquisition";
    EXPECT_EQ(
        broken(within("acquire") +
               "call 24 client=1 tx=1 do=extend by=token names=b of=20 at_most=5 at=990\ndone 24 result=no at=991\n"),
        "unexplained");
}

TEST(checker, sees_that_a_held_lock_was_called_free)
{
    auto const force = [](int at, char const *answer) { return told("force", at, answer); };
    EXPECT_EQ(broken(first + force(200, "result=no")), "unexplained");
    EXPECT_EQ(broken(first + force(1105, "result=no")), "") << "at the end of the lease";
    EXPECT_EQ(broken(first + "call 3 client=1 do=release by=token names=a of=1 at=150\ndone 3 result=yes at=201\n" +
                     force(200, "result=no")),
              "");
    EXPECT_EQ(
        broken(first + "call 9 client=0 do=force names=a at=150\ndone 9 result=yes at=160\n" + force(200, "result=no")),
        "");
    EXPECT_EQ(
        broken(first + "call 9 client=0 do=force names=a at=80\ndone 9 result=no at=90\n" + force(200, "result=no")),
        "unexplained")
        << "that was before";
    EXPECT_EQ(broken(first + force(200, "result=yes") + second("220", 215)), "") << "and taken by another";
    EXPECT_EQ(broken(first + force(200, "result=no") + second("220", 215)), "unexplained");
    EXPECT_EQ(broken(first + force(200, "result=yes") + guarded(1000, "result=yes")), "I11");
}

// ---- Unexplained ----

TEST(checker, sees_a_refusal_without_a_reason)
{
    auto const refused = [](int at) {
        auto const t = std::to_string(at);
        return "call 5 client=3 do=acquire by=session names=a at_most=10 at_least=0 at=" + t +
               "\ndone 5 result=no before=" + t + " at=" + std::to_string(at + 10) + '\n';
    };
    auto const other = [](int at) {
        return "call 6 client=4 do=acquire by=session names=a at_most=10 at_least=0 at=" + std::to_string(at) +
               "\ndone 6 result=no at=2000\n";
    };
    EXPECT_EQ(broken(first + other(1000) + refused(1111)), "")
        << "another saw an earlier state, and had its hand on it";
    EXPECT_EQ(broken(first + refused(1200) + other(1190)), "unexplained") << "that one saw the same";
    auto const java = [](int at) {
        return "call 7 client=5 do=acquire by=java names=a at_most=5 at=" + std::to_string(at) +
               "\ndone 7 result=yes token=" + std::to_string(at) + " until=" + std::to_string(at + 5) +
               " at=" + std::to_string(at + 20) + '\n';
    };
    EXPECT_EQ(broken(first + other(1190) + refused(1200) + java(1300)), "")
        << "that one had its hand on the row until one of Java's, which does not care, got in before it";
    EXPECT_EQ(broken(first + other(1190) + refused(1200) + java(2001)), "unexplained") << "too late for that";
    EXPECT_EQ(broken(first + other(1190) + refused(1200) +
                     "call 7 client=0 do=force names=a at=1300\ndone 7 result=no at=1320\n"),
              "")
        << "or a release by force";
    EXPECT_EQ(broken(first + java(1150) + other(1190) + refused(1200)), "unexplained") << "too early";
    EXPECT_EQ(broken("history seed=1\n" + refused(100)), "unexplained") << "nobody ever had it";
    std::string const library =
        "call 8 client=6 do=acquire by=library names=a at_most=5 at=95\ndone 8 result=no at=120\n";
    auto const next = second("117", 112);
    EXPECT_EQ(broken("history seed=1\n" + library + refused(100) + next), "unexplained");
    EXPECT_EQ(broken("history seed=1 allow=57P01\n" + library + refused(100) + next), "")
        << "granted for 5 microseconds, perhaps, and the reply was lost";
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
        << "one of Java's had the row locked";
}

TEST(checker, I2_sees_errors_that_nobody_expects)
{
    auto const failing = [](char const *what, char const *by, char const *state) {
        return std::string{"history seed=1 allow=57014\ncall 1 client=1 do="} + what + " by=" + by +
               " names=a at_most=5 at_least=0 at=100\ndone 1 result=error state=" + state + " at=110\n";
    };
    for (auto const *const state : {"40001", "23505", "40P01", "55P03", "25001", "XX000"})
        EXPECT_EQ(broken(failing("acquire", "token", state)), "I2") << state;
    EXPECT_EQ(broken("history seed=1 allow=55P03\ncall 1 client=1 do=acquire by=token names=a at_most=5 at=100\ndone 1 "
                     "result=error state=55P03 at=110\n"),
              "I2")
        << "it never waits, so no lock_timeout can end its wait";
    EXPECT_EQ(broken(failing("acquire", "token", "57014")), "") << "allowed by the head";
    EXPECT_EQ(broken(failing("acquire", "java", "40001")), "") << "Java's do";
    EXPECT_EQ(broken(failing("guard", "token", "SL001")), "");
    EXPECT_EQ(broken(failing("acquire", "token", "SL001")), "I2");

    auto const committing = "call 2 client=1 tx=1 do=commit by=token at=100\ndone 2 result=error state=40001 at=110\n";
    auto const prepared = [](char const *by) {
        return std::string{"call 1 client=2 tx=1 do=prepare by="} + by + " at=90\ndone 1 result=yes at=95\n";
    };
    EXPECT_EQ(broken("history seed=1\n" + prepared("java") + committing), "")
        << "it cannot fail any more, so ours does";
    EXPECT_EQ(broken("history seed=1\n" + prepared("token") + committing), "unexplained");
}

TEST(checker, lets_the_portable_edition_fail_where_rows_have_changed)
{
    auto const failing = [](char const *level, char const *what, char const *state) {
        return std::string{"history seed=1 edition=portable\ncall 1 client=1 tx=1 do=start at=80"} + level +
               "\ndone 1 result=yes at=90\ncall 2 client=1 tx=1 do=" + what +
               " by=token names=a at_most=5 of=9 at=100\ndone 2 result=error state=" + state + " at=110\n";
    };
    for (auto const *const what : {"extend", "release", "guard"}) {
        EXPECT_EQ(broken(failing(" level=repeatable", what, "40001")), "") << what;
        EXPECT_EQ(broken(failing("", what, "40001")), "unexplained") << what;
    }
    EXPECT_EQ(broken(failing(" level=repeatable", "acquire", "40001")), "I2") << "it is refused";
    EXPECT_EQ(broken(failing(" level=serializable", "acquire", "40001")), "");
    EXPECT_EQ(broken(failing("", "acquire", "40P01")), "I2");
    EXPECT_EQ(broken(failing("", "acquire", "55P03")), "I2");
}

TEST(checker, lets_the_portable_edition_guard_against_others_only)
{
    auto const again = guarded(1500, "result=yes");
    auto const commit = again.find("call 13");
    auto const own = "call 2 client=1 tx=1 do=acquire by=token names=a at_most=5 at_least=0 at=1200\ndone 2 result=yes "
                     "token=1210 before=1205 after=1215 until=1215 at=1220\n";
    auto const history = first + again.substr(0, commit) + own + again.substr(commit);
    EXPECT_EQ(broken(history), "I11");
    EXPECT_EQ(broken("history seed=1 edition=portable" + history.substr(history.find('\n'))), "");
}

TEST(checker, lets_the_portable_edition_refuse_what_it_cannot_see_free)
{
    auto const refused = [](std::string const &head, char const *level) {
        return "history seed=1" + head + "\ncall 1 client=1 tx=1 do=start at=80" + level +
               "\ndone 1 result=yes at=90\ncall 2 client=1 tx=1 do=acquire by=token names=a at_most=5 at_least=0 "
               "at=100\n"
               "done 2 result=no at=110\n";
    };
    EXPECT_EQ(broken(refused(" edition=portable", " level=repeatable")), "");
    EXPECT_EQ(broken(refused(" edition=portable", "")), "unexplained");
    EXPECT_EQ(broken(refused("", " level=repeatable")), "unexplained");
}

TEST(checker, lets_java_miss_the_rows_of_a_table_that_was_rewritten_after_its_snapshot)
{
    auto const not_done = [](std::string const &head, std::string const &by, std::string const &level) {
        return "history seed=1" + head + "\ncall 1 client=1 do=acquire by=" + by +
               " names=a at_most=1000 at_least=0 at=100\ndone 1 result=yes token=110 before=105 after=115 until=1110 "
               "at=120\ncall 2 client=1 tx=1 do=start by=" +
               by + level + " at=130\ndone 2 result=yes at=140\ncall 3 client=1 tx=1 do=extend by=" + by +
               " names=a at_most=1000 of=1 at=200\ndone 3 result=no at=210\n";
    };
    EXPECT_EQ(broken(not_done(" allow=42P01", "java", " level=repeatable")), "");
    EXPECT_EQ(broken(not_done("", "java", " level=repeatable")), "unexplained") << "no DDL";
    EXPECT_EQ(broken(not_done(" allow=42P01", "java", "")), "unexplained") << "each statement has its own";
    EXPECT_EQ(broken(not_done(" allow=42P01", "token", " level=repeatable")), "unexplained") << "ours look anew";
}

TEST(checker, sees_a_row_that_nobody_was_told_of)
{
    auto const look = "call 7 client=0 do=look names=a at=2000\ndone 7 result=yes rows=a:777:1777 at=2010\n";
    EXPECT_EQ(
        broken(std::string{"history seed=1 allow=57014\ncall 1 client=1 do=acquire by=token names=a at_most=5 at=100\n"
                           "done 1 result=error state=57014 at=110\n"} +
               look),
        "unexplained");
    EXPECT_EQ(
        broken(std::string{"history seed=1\ncall 1 client=1 do=acquire by=token names=a at_most=5 at=100\n"} + look),
        "");
}

// ---- I7 ----

TEST(checker, I7_sees_that_an_acknowledged_grant_is_forgotten)
{
    auto const look = [](std::string const &rows) {
        return "call 7 client=0 do=look names=a at=500\ndone 7 result=yes " + rows + " at=510\n";
    };
    EXPECT_EQ(broken(first + look("rows=a:110:1110")), "");
    EXPECT_EQ(broken(first + look("rows=a:109:1110")), "I7 unexplained");
    EXPECT_EQ(broken(first + look("")), "I7");
    EXPECT_EQ(broken(first + look("rows=a:110:1109")), "I7") << "the lease was shortened";
    EXPECT_EQ(broken(first + "call 9 client=0 do=revoke names=a at=300\ndone 9 result=yes at=310\n" + look("")), "");
}

TEST(checker, I7_sees_a_grant_that_no_standby_has)
{
    EXPECT_EQ(broken("history seed=1 standby=missing\ncall 1 client=1 do=acquire by=library names=a at_most=5 "
                     "at=100\ndone 1 result=yes token=105 at=110\n"),
              "I7");
    EXPECT_EQ(broken("history seed=1 standby=missing\ncall 1 client=1 do=acquire by=library names=a at_most=5 "
                     "at=100\ndone 1 result=lost at=110\n"),
              "");
}

TEST(checker, I7_knows_that_a_crash_may_take_back_a_release)
{
    auto const rest = R"(call 3 client=1 do=release by=token names=a of=1 at=200
done 3 result=yes before=205 after=206 at=220
call 4 client=3 do=acquire by=session names=a at_most=10 at_least=0 at=300
done 4 result=no before=300 at=310
call 5 client=1 do=release by=token names=a of=1 at=400
done 5 result=yes before=405 after=406 at=420
)";
    EXPECT_EQ(broken(first + rest), "I4 unexplained");
    EXPECT_EQ(broken(R"(history seed=1 crashes=yes
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 1 result=yes token=110 at=120
call 2 client=1 tx=1 do=start at=130
done 2 result=yes at=131
call 3 client=1 tx=1 do=release by=token names=a of=1 at=140
done 3 result=yes at=145
call 4 client=1 tx=1 do=release by=token names=a of=1 at=150
done 4 result=yes at=155
call 5 client=1 tx=1 do=rollback at=160
done 5 result=yes at=165
)"),
              "I4")
        << "not within one transaction";
    EXPECT_EQ(broken("history seed=1 crashes=yes\n" + first.substr(first.find('\n') + 1) + rest), "");
}

} // namespace
