#include "by_hand.hpp"

namespace {

using namespace by_hand;

TEST(checker, I1_sees_a_grant_during_a_lease)
{
    EXPECT_EQ(broken(first + second("510", 500)), "I1");
}

TEST(checker, I1_allows_a_grant_at_the_very_end_of_a_lease)
{
    EXPECT_EQ(broken(first + second("1110", 1100)), "");
    EXPECT_EQ(broken(first + second("1109", 1100)), "I1") << "one microsecond early";
}

TEST(checker, I1_sees_two_grants_of_simultaneous_requests)
{
    EXPECT_EQ(broken(first + second("112", 101)), "I1");
}

TEST(checker, I1_allows_a_grant_after_a_release)
{
    const auto release = R"(call 3 client=1 do=release by=token names=a of=1 at=200
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
    const auto longer = R"(call 3 client=1 do=extend by=token names=a of=1 at_most=1000 at=600
done 3 result=yes before=605 after=615 at=620
)";
    EXPECT_EQ(broken(first + longer + second("1200", 1190)), "I1");
    EXPECT_EQ(broken(first + longer + second("1616", 1606)), "");
    const auto shorter = R"(call 3 client=1 do=extend by=token names=a of=1 at_most=100 at=600
done 3 result=yes before=605 after=615 at=620
)";
    EXPECT_EQ(broken(first + shorter + second("720", 710)), "");
    EXPECT_EQ(broken(first + shorter + second("700", 690)), "I1");
}

TEST(checker, I1_knows_that_the_library_may_send_an_extend_twice)
{
    const auto history = [](const char *head, const char *by) {
        return std::string{head} + "call 1 client=1 do=acquire by=" + by +
               " names=a at_most=1000 at_least=0 at=100\ndone 1 result=yes token=110 before=105 after=115 at=120\n"
               "call 3 client=1 do=extend by=" +
               by + " names=a of=1 at_most=50 at=200\ndone 3 result=no at=300\n" + second("320", 310);
    };
    EXPECT_EQ(broken(history("history seed=1 allow=57P01\n", "library")), "")
        << "the first reply was lost, and when the library asked again, the lease that it had shortened itself was "
           "over";
    EXPECT_EQ(broken(history("history seed=1\n", "library")), "I1 unexplained") << "replies do not get lost";
    EXPECT_EQ(broken(history("history seed=1 allow=57P01\n", "token")), "I1 unexplained")
        << "the functions are called once";
}

TEST(checker, I1_counts_the_locks_of_an_open_transaction)
{
    const std::string open = R"(history seed=1
call 1 client=1 tx=1 do=start at=90
done 1 result=yes at=95
call 2 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 2 result=yes token=110 before=105 after=115 at=120
)";
    const auto rollback = R"(call 3 client=1 tx=1 do=rollback at=400
done 3 result=yes at=420
)";
    const auto other = [](int at) {
        const auto t = std::to_string(at);
        return "call 4 client=2 do=acquire by=token names=a at_most=10 at_least=0 at=" + t +
               "\ndone 4 result=yes token=" + std::to_string(at + 2) + " at=" + std::to_string(at + 5) + '\n';
    };
    EXPECT_EQ(broken(open + other(300) + rollback), "I1");
    EXPECT_EQ(broken(open + rollback + other(430)), "");
    EXPECT_EQ(broken(open + other(398) + rollback), "") << "it may have been granted after the rollback";
    EXPECT_EQ(broken(open + other(300)), "") << "the session may have died in the meantime";
    EXPECT_EQ(
        broken(open +
               "call 3 client=1 tx=1 do=guard by=token names=b of=0 at=200\ndone 3 result=error state=SL001 at=220\n" +
               other(300) + rollback),
        "")
        << "an error has ended the transaction";
}

TEST(checker, I1_allows_for_a_transaction_whose_client_died)
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

TEST(checker, I1_forgets_what_is_rolled_back_to_a_savepoint)
{
    const std::string undone = R"(history seed=1
call 1 client=1 tx=1 do=start at=90
done 1 result=yes at=91
call 2 client=1 tx=1 do=savepoint at=92
done 2 result=yes at=93
call 3 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 3 result=yes token=110 at=120
call 4 client=1 tx=1 do=)";
    const auto rest = R"( at=130
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
    const auto text = [](const char *wall) {
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
    const auto ahead = R"(history seed=1
call 1 client=1 do=acquire by=library names=a at_most=1000 at_least=0 tick=300 at=100
done 1 result=yes token=210 at=400
)";
    EXPECT_EQ(broken(ahead + second("1210", 1200)), "");
    EXPECT_EQ(broken(ahead + second("1209", 1200)), "I1");
}

TEST(checker, I1_sees_a_client_that_trusts_its_lease_too_long)
{
    const auto trusting = [](const char *trust, const char *how = "") {
        return std::string{"history seed=1\ncall 1 client=1 do=acquire by=library names=a at_most=1000 at_least=0"} +
               how + " at=100\ndone 1 result=yes token=110 trust=" + trust + " at=400\n";
    };
    EXPECT_EQ(broken(trusting("1110")), "");
    EXPECT_EQ(broken(trusting("1111")), "I1");
    EXPECT_EQ(broken(trusting("1400", " keep_alive=yes")), "")
        << "keep-alive extended it before its owner got the answer";
    EXPECT_EQ(broken(trusting("1401", " keep_alive=yes")), "I1");
}

TEST(checker, I1_sees_two_clients_that_rely_on_the_lock_at_the_same_time)
{
    const auto claims = [](int last, int next) {
        const auto text = [](int time) { return std::to_string(time); };
        return "call 3 client=2 do=acquire by=library names=a at_most=1000 at_least=0 keep_alive=yes at=" +
               text(next - 10) + "\ndone 3 result=yes token=" + text(next - 5) + " at=" + text(next) +
               "\ncall 4 client=1 do=release by=token names=a of=1 at=3000\ndone 4 result=no trust=" + text(last) +
               " at=3010\ncall 5 client=2 do=release by=library names=a of=3 at=3020\ndone 5 result=yes trust=2500 "
               "at=3030\n";
    };
    EXPECT_EQ(broken(first + claims(1499, 1500)), "");
    EXPECT_EQ(broken(first + claims(1500, 1500)), "I1");
    EXPECT_EQ(
        broken(first + "call 9 client=9 do=revoke names=a at=1400\ndone 9 result=yes at=1410\n" + claims(1500, 1500)),
        "");
}

TEST(checker, I5_sees_a_grant_within_at_least)
{
    const auto kept = [](int at) {
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
    const auto run = [](int number, int at, int tick) {
        const auto n = std::to_string(number), t = std::to_string(at);
        return "call " + n +
               " client=1 do=acquire by=token names=a at_most=50 at_least=0 tick=" + std::to_string(tick) + " at=" + t +
               "\ndone " + n + " result=yes token=" + std::to_string(at + 5) + " at=" + std::to_string(at + 9) + '\n';
    };
    EXPECT_EQ(broken("history seed=1\n" + run(1, 100, 90) + run(2, 200, 90)), "tick");
    EXPECT_EQ(broken("history seed=1\n" + run(1, 100, 90) + run(2, 200, 190)), "");
    const std::string begin =
        "history seed=1\ncall 1 client=2 do=acquire by=token names=a at_most=50 at_least=0 tick=90 at=100\n";
    const std::string end = "done 1 result=yes token=405 at=409\n";
    EXPECT_EQ(broken(begin + run(2, 200, 90) + end), "tick");
    EXPECT_EQ(
        broken(begin + run(2, 200, 90) + "call 9 client=0 do=revoke names=a at=300\ndone 9 result=yes at=310\n" + end),
        "")
        << "the row was deleted before the acquire that was called first was granted";
}

// An acquisition by client 1 for tick 90, which is released between 200 and 220, as done or as failed.
std::string turn(const char *said)
{
    return std::string{R"(history seed=1
call 1 client=1 do=acquire by=token names=a at_most=1000 at_least=0 tick=90 at=100
done 1 result=yes token=110 at=120
call 2 client=1 do=release by=token names=a of=1)"} +
           said + " at=200\ndone 2 result=yes before=205 after=206 at=220\n";
}

// The same without a tick; its token is 110.
std::string without_tick(const char *said)
{
    auto text = turn(said);
    return text.replace(text.find("tick=90 "), 8, "");
}

TEST(checker, tick_counts_with_retry_only_if_it_was_done)
{
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, " retry=yes", "yes token=310")), "");
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, "", "yes token=310")), "tick") << "without retry";
    EXPECT_EQ(broken(turn("") + asks_for_tick(90, " retry=yes", "yes token=310")), "tick") << "it was done";
    EXPECT_EQ(broken(turn("") + "call 9 client=0 do=revoke names=a at=250\ndone 9 result=yes at=260\n" +
                     asks_for_tick(90, " retry=yes", "yes token=310")),
              "")
        << "the row was deleted, so it is not known any more";
    EXPECT_EQ(broken(turn("") + "call 9 client=0 do=force names=a at=250\ndone 9 result=yes at=260\n" +
                     asks_for_tick(90, " retry=yes", "yes token=310")),
              "tick")
        << "a release by force forgets no tick";
    EXPECT_EQ(broken(turn("").replace(8, 0, "crashes=yes ") + asks_for_tick(90, " retry=yes", "yes token=310")), "tick")
        << "a crash may forget releases, but not one as done";
}

TEST(checker, tick_is_compared_with_ticks)
{
    EXPECT_EQ(broken(turn("") + asks_for_tick(91, "", "yes token=310")), "")
        << "a later tick, although it is before the time at which that run began";
    EXPECT_EQ(broken(turn("") + asks_for_tick(91, "", "no")), "unexplained");
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(89, "", "yes token=310")), "tick");
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(89, " retry=yes", "yes token=310")), "tick")
        << "an earlier tick is refused for good";
    EXPECT_EQ(broken(without_tick("") + asks_for_tick(111, "", "yes token=310")), "");
    EXPECT_EQ(broken(without_tick("") + asks_for_tick(111, "", "no")), "unexplained");
}

TEST(checker, tick_is_used_up_by_a_run_without_a_tick_only_if_that_was_done)
{
    for (const char *retry : {"", " retry=yes"}) {
        EXPECT_EQ(broken(without_tick("") + asks_for_tick(109, retry, "yes token=310")), "tick");
        EXPECT_EQ(broken(without_tick("") + asks_for_tick(109, retry, "no")), "");
        EXPECT_EQ(broken(without_tick(" done=no") + asks_for_tick(109, retry, "yes token=310")), "");
        EXPECT_EQ(broken(without_tick(" done=no") + asks_for_tick(109, retry, "no")), "unexplained");
    }
    EXPECT_EQ(broken(without_tick("").replace(8, 0, "crashes=yes ") + asks_for_tick(109, "", "yes token=310")), "")
        << "a crash may forget it, because its row had no tick";
    auto after_tick = without_tick("").replace(8, 0, "crashes=yes ");
    after_tick.insert(after_tick.find("call 1 "),
                      "call 8 client=3 do=acquire by=token names=a at_most=5 at_least=0 tick=10 at=20\n"
                      "done 8 result=yes token=22 until=27 at=24\n");
    EXPECT_EQ(broken(after_tick + asks_for_tick(109, "", "yes token=310")), "tick");
}

TEST(checker, tick_ahead_of_the_clock_that_failed_is_still_due_after_a_run_without_a_tick)
{
    const auto between = [](const char *said) {
        return std::string{"call 4 client=1 do=acquire by=token names=a at_most=1000 at_least=0 at=230\n"
                           "done 4 result=yes token=240 at=250\n"
                           "call 5 client=1 do=release by=token names=a of=4"} +
               said + " at=260\ndone 5 result=yes before=265 after=266 at=270\n";
    };
    auto ahead = turn(" done=no");
    ahead.replace(ahead.find("tick=90"), 7, "tick=290");
    EXPECT_EQ(broken(ahead + between("") + asks_for_tick(290, " retry=yes", "yes token=310")), "");
    EXPECT_EQ(broken(ahead + between("") + asks_for_tick(290, " retry=yes", "no")), "unexplained");
    EXPECT_EQ(broken(ahead + between(" done=no") + asks_for_tick(290, " retry=yes", "no")), "unexplained");
}

TEST(checker, tick_sees_that_it_was_too_late)
{
    EXPECT_EQ(broken(turn("") + asks_for_tick(91, " start_within=218", "yes token=310")), "tick");
    EXPECT_EQ(broken(turn("") + asks_for_tick(91, " start_within=219", "yes token=310")), "");
    EXPECT_EQ(broken(turn("") + asks_for_tick(91, " start_within=100", "no")), "");
    EXPECT_EQ(broken(turn("") + asks_for_tick(91, " start_within=1000", "no")), "unexplained");
}

TEST(checker, tick_sees_that_a_due_tick_was_refused)
{
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, " retry=yes", "no")), "unexplained");
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, "", "no")), "") << "the tick had been granted";
    EXPECT_EQ(broken(turn("") + asks_for_tick(90, " retry=yes", "no")), "") << "it was done";
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(89, " retry=yes", "no")), "") << "there was a later tick";
    EXPECT_EQ(broken(turn(" done=no") + asks_for_tick(90, " retry=yes", "no", 210)), "") << "just being released";
    EXPECT_EQ(broken(turn("") + asks_for_tick(111, "", "no")), "unexplained") << "the next tick";
    EXPECT_EQ(broken(turn(" done=no") + "call 9 client=0 do=force names=a at=250\ndone 9 result=yes at=260\n" +
                     asks_for_tick(90, " retry=yes", "no")),
              "unexplained")
        << "a release by force uses up no tick";
    auto kept = turn(" done=no");
    kept.replace(kept.find("at_least=0"), 10, "at_least=200");
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "no")), "") << "kept for its at_least";
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "yes token=305")), "I5");
    EXPECT_EQ(broken(kept + asks_for_tick(90, " retry=yes", "no", 320)), "unexplained") << "at_least has passed";
    const std::string ran_out =
        "history seed=1\ncall 1 client=1 do=acquire by=token names=a at_most=50 at_least=0 tick=90 "
        "at=100\ndone 1 result=yes token=110 until=160 at=120\n";
    EXPECT_EQ(broken(ran_out + asks_for_tick(90, " retry=yes", "no")), "unexplained") << "the lease ran out";
    EXPECT_EQ(broken(ran_out + asks_for_tick(90, " retry=yes", "yes token=310")), "");
    EXPECT_EQ(broken(ran_out + asks_for_tick(90, "", "no")), "");
}

TEST(checker, I6_sees_a_token_that_did_not_grow)
{
    EXPECT_EQ(broken(first + second("1120", 1110)), "");
    const auto repeated = R"(call 2 client=2 do=acquire by=token names=a at_most=10 at_least=0 at=1200
done 2 result=yes token=110 before=1205 after=1210 at=1220
)";
    EXPECT_EQ(broken(first + repeated), "I6");
    EXPECT_EQ(broken(first + "call 9 client=0 do=revoke names=a at=300\ndone 9 result=yes at=310\n" + repeated), "I6")
        << "even if the row was deleted";
}

} // namespace
