#include "by_hand.hpp"

namespace {

using namespace by_hand;

// A call of client 2, which uses the token of client 1, and its answer.
std::string told(const char *what, int at, const char *answer, const char *tx = "")
{
    return std::string{"call 30 client=2 do="} + what + tx +
           " by=token names=a of=1 at_most=5 at=" + std::to_string(at) + "\ndone 30 " + answer +
           " at=" + std::to_string(at + 10) + '\n';
}
constexpr const char *lost = "result=error state=SL001";

TEST(checker, sees_that_the_holder_was_refused)
{
    for (const auto *const what : {"extend", "release"}) {
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
    const std::string java = R"(history seed=1
call 1 client=1 do=acquire by=java names=a at_most=1000 at=100
done 1 result=yes token=110 until=1110 at=120
call 2 client=1 do=extend by=java names=a of=1 at_most=5 at=)";
    EXPECT_EQ(broken(java + "200\ndone 2 result=no at=210\n"), "unexplained");
    EXPECT_EQ(broken(java + "1105\ndone 2 result=no at=1115\n"), "");
}

TEST(checker, knows_that_one_of_several_locks_may_have_been_lost)
{
    const std::string both = R"(history seed=1
call 1 client=1 do=acquire by=token names=a,b at_most=1000 at_least=0 at=100
done 1 result=yes token=110 before=105 after=115 at=120
)";
    const std::string refused =
        "call 3 client=1 do=extend by=token names=a,b of=1 at_most=5 at=200\ndone 3 result=no at=210\n";
    EXPECT_EQ(broken(both + refused), "unexplained");
    EXPECT_EQ(
        broken(both + "call 2 client=1 do=release by=token names=b of=1 at=150\ndone 2 result=yes at=160\n" + refused),
        "");
}

TEST(checker, knows_that_another_call_may_have_released_the_lock)
{
    const auto release = [](int at, const char *result) {
        return "call 3 client=1 do=release by=token names=a of=1 at=" + std::to_string(at) + "\ndone 3 " + result +
               " at=" + std::to_string(at + 20) + '\n';
    };
    for (const auto *const what : {"extend", "release"}) {
        EXPECT_EQ(broken(first + release(190, "result=yes") + told(what, 200, "result=no")), "")
            << what << " during a release";
        EXPECT_EQ(broken(first + told(what, 200, "result=no") + release(209, "result=yes")), "")
            << what << " that a release may just have preceded";
        EXPECT_EQ(broken(first + told(what, 200, "result=no") + release(211, "result=yes")), "unexplained")
            << what << " before a release";
        EXPECT_EQ(broken(first + release(150, "result=lost") + told(what, 200, "result=no")), "")
            << what << " after a release that may have happened";
        EXPECT_EQ(broken(first + release(150, "result=no") + told(what, 300, "result=yes")), "unexplained")
            << "the release failed while the lock was held";
    }
}

TEST(checker, knows_that_of_two_simultaneous_extends_either_may_be_the_last)
{
    const auto extend = [](int number, int client, int at_most, int at) {
        const auto n = std::to_string(number);
        return "call " + n + " client=" + std::to_string(client) +
               " do=extend by=token names=a of=1 at_most=" + std::to_string(at_most) + " at=" + std::to_string(at) +
               "\ndone " + n + " result=yes at=" + std::to_string(at + 20) + '\n';
    };
    EXPECT_EQ(broken(first + extend(3, 1, 50, 200) + extend(4, 2, 500, 210) + told("extend", 400, "result=no")), "");
    EXPECT_EQ(broken(first + extend(3, 1, 50, 200) + extend(4, 2, 500, 221) + told("extend", 400, "result=no")),
              "unexplained");
    EXPECT_EQ(broken(first + extend(3, 1, 200, 200) + extend(4, 2, 500, 210) + told("extend", 350, "result=no")),
              "unexplained")
        << "both leases last long enough";
    const auto release = "call 5 client=1 do=release by=token names=a of=1 at=200\ndone 5 result=yes at=240\n";
    const auto cut = [](int at) {
        return "call 6 client=2 do=extend by=token names=a of=1 at_most=500 at_least=10 at=" + std::to_string(at) +
               "\ndone 6 result=yes at=" + std::to_string(at + 5) + '\n';
    };
    const auto kept = "call 3 client=1 do=extend by=token names=a of=1 at_most=500 at_least=400 at=150\n"
                      "done 3 result=yes at=160\n";
    EXPECT_EQ(broken(first + kept + release + cut(205) + second("310", 300)), "") << "extended, then released";
    EXPECT_EQ(broken(first + kept + release + second("310", 300)), "I5");
}

TEST(checker, knows_that_a_repeated_extend_is_the_last)
{
    const std::string text = R"(call 3 client=1 do=extend by=library names=a of=1 at_most=50 at=200
done 3 result=lost at=210
call 4 client=1 do=extend by=library names=a of=1 at_most=500 at=230
done 4 result=yes at=240
)";
    EXPECT_EQ(broken(first + text + told("extend", 400, "result=no")), "unexplained");
}

TEST(checker, knows_that_a_kept_lock_is_not_live)
{
    std::string kept = first;
    kept.replace(kept.find("at_least=0"), 10, "at_least=900");
    const auto release = "call 3 client=1 do=release by=token names=a of=1 at=150\ndone 3 result=yes at=160\n";
    EXPECT_EQ(broken(kept + release + told("extend", 200, "result=no")), "");
    EXPECT_EQ(broken(kept + told("extend", 200, "result=no")), "unexplained");
}

TEST(checker, knows_that_other_clients_can_use_a_grant_only_after_its_commit)
{
    const std::string open = R"(history seed=1
call 1 client=1 tx=1 do=acquire by=token names=a at_most=1000 at_least=0 at=100
done 1 result=yes token=110 at=120
call 2 client=1 tx=1 do=commit at=190
done 2 )";
    EXPECT_EQ(broken(open + "result=yes at=195\n" + told("extend", 200, "result=no")), "unexplained");
    EXPECT_EQ(broken(open + "result=yes at=201\n" + told("extend", 200, "result=no")), "");
    EXPECT_EQ(broken(open + "result=lost at=195\n" + told("extend", 200, "result=no")), "");
    EXPECT_EQ(broken(open + "result=yes at=201\n" + told("guard", 200, lost)), "");
    EXPECT_EQ(broken(open + "result=error state=SL001 at=195\n" + told("extend", 200, "result=no")), "unexplained")
        << "it guarded no lock";
}

TEST(checker, I11_sees_a_guard_that_fails_without_a_reason)
{
    EXPECT_EQ(broken(first + told("guard", 200, lost)), "unexplained");
    EXPECT_EQ(broken(first + told("guard", 200, "result=no")), "unexplained") << "as the library reports it";
    EXPECT_EQ(broken(first + told("guard", 2000, lost)), "unexplained") << "a lease that ran out is no reason";
    EXPECT_EQ(broken(first + "call 3 client=1 do=release by=token names=a of=1 at=150\ndone 3 result=yes at=160\n" +
                     told("guard", 200, lost)),
              "unexplained")
        << "a release is no reason";
    EXPECT_EQ(broken("history seed=1\n" + told("guard", 200, lost)), "") << "the lock was never acquired";
    EXPECT_EQ(broken(first + second("1120", 1110) + told("guard", 1200, lost)), "") << "taken over";
    EXPECT_EQ(broken(first + told("guard", 1200, lost) + second("1210", 1205)), "") << "taken over during the call";
    EXPECT_EQ(broken(first + told("guard", 1200, lost) + second("1220", 1211)), "unexplained") << "taken over too late";
    EXPECT_EQ(broken(second("60", 50) + first.substr(first.find("call")) + told("guard", 1200, lost)), "I1 unexplained")
        << "an earlier acquisition is no reason";
    const auto by = [](const char *what, const char *answer) {
        return "call 2 client=3 " + std::string{what} + " by=token at_most=5 at=1150\ndone 2 " + answer + " at=1210\n";
    };
    EXPECT_EQ(broken(first + by("do=acquire names=a", "result=lost") + told("guard", 1300, lost)), "")
        << "possibly acquired";
    EXPECT_EQ(broken(first + by("do=acquire names=a", "result=lost") + told("guard", 300, lost)), "unexplained")
        << "that was later";
    EXPECT_EQ(
        broken(first + "call 2 client=3 do=acquire by=token names=a at_most=5 at=150\n" + told("guard", 300, lost)),
        "unexplained")
        << "possibly acquired, but not before the lease ended";
    const auto refused = [](const char *maker) {
        return std::string{"call 2 client=3 do=acquire names=a at_most=5 by="} + maker +
               " at=1100\ndone 2 result=no at=1210\n";
    };
    EXPECT_EQ(broken(first + refused("token") + told("guard", 1200, lost)), "unexplained") << "it was refused";
    EXPECT_EQ(broken(first + "history allow=57P01\n" + refused("library") + told("guard", 1200, lost)), "")
        << "possibly granted, and the reply was lost";
    EXPECT_EQ(broken(first + "history allow=57P01\n" + refused("token") + told("guard", 1200, lost)), "unexplained");
    EXPECT_EQ(broken(first + by("do=acquire names=a,b", "result=no") + told("guard", 1200, lost)), "")
        << "the other call had lock a until it was refused lock b";
    EXPECT_EQ(broken(first + by("do=acquire names=a,b", "result=no") + told("guard", 1211, lost)), "unexplained")
        << "it no longer had lock a";
    EXPECT_EQ(broken(first + by("do=force names=a", "result=no") + told("guard", 1300, lost)), "")
        << "the lock has a new token now";
    EXPECT_EQ(broken(first + by("do=revoke names=a", "result=lost") + told("guard", 1300, lost)), "")
        << "possibly deleted";
}

TEST(checker, I11_knows_that_a_run_that_was_cancelled_may_have_had_the_lock)
{
    const auto in_vain =
        "call 2 client=1 do=release by=token names=a of=1 at=150\ndone 2 result=yes at=160\n"
        "call 3 client=2 do=run by=session names=a at_most=9 at=170\ndone 3 result=error state=57014 at=190\n";
    const auto allowed = "history allow=57014\n";
    EXPECT_EQ(broken(first + allowed + in_vain + told("guard", 200, lost)), "") << "the run may have had the lock";
    EXPECT_EQ(broken(first + allowed + told("guard", 200, lost)), "unexplained");
}

TEST(checker, I11_sees_a_guarded_commit_that_fails_without_a_reason)
{
    EXPECT_EQ(broken(first + guarded(1000, lost)), "unexplained");
    EXPECT_EQ(broken(first + guarded(1500, lost)), "unexplained")
        << "the lease has ended, but no other client has taken the lock";
    EXPECT_EQ(broken(first + guarded(1500, lost) + second("1505", 1500)), "");
    const auto prepared = [](std::string text) { return text.replace(text.find("do=commit"), 9, "do=prepare"); };
    EXPECT_EQ(broken(first + prepared(guarded(1500, lost))), "unexplained");
    EXPECT_EQ(broken(first + prepared(guarded(1500, lost)) + second("1505", 1500)), "");
    const auto within = [](const char *what) {
        return "call 20 client=1 tx=1 do=" + std::string{what} +
               " by=token names=b at_most=500 at=940\ndone 20 result=yes token=945 at=950\n";
    };
    const auto guard_b = "call 21 client=1 tx=1 do=guard by=token names=b of=20 at=960\ndone 21 result=yes at=970\n";
    const auto gone = [](const char *name) {
        return std::string{"call 9 client=0 do=revoke names="} + name + " at=975\ndone 9 result=yes at=980\n";
    };
    EXPECT_EQ(broken(first + within("acquire") + guard_b + guarded(1000, lost)), "unexplained")
        << "neither of the two locks was lost";
    EXPECT_EQ(broken(first + within("acquire") + guard_b + guarded(1000, lost) + gone("b")), "")
        << "one lost lock is enough";
    const auto undone = "call 22 client=1 tx=1 do=savepoint at=935\ndone 22 result=yes at=936\n" + within("acquire") +
                        guard_b + "call 23 client=1 tx=1 do=undo at=985\ndone 23 result=yes at=986\n";
    EXPECT_EQ(broken(first + undone + guarded(1000, lost) + gone("b")), "unexplained") << "that guard was rolled back";
    EXPECT_EQ(broken(first + undone + guarded(1000, lost) + gone("a")), "");
    EXPECT_EQ(
        broken(undone +
               "call 24 client=1 tx=1 do=extend by=token names=b of=20 at_most=5 at=990\ndone 24 result=no at=991\n"),
        "")
        << "that acquisition was rolled back as well";
    EXPECT_EQ(
        broken(within("acquire") +
               "call 24 client=1 tx=1 do=extend by=token names=b of=20 at_most=5 at=990\ndone 24 result=no at=991\n"),
        "unexplained");
}

TEST(checker, sees_that_a_held_lock_was_reported_as_free)
{
    const auto force = [](int at, const char *answer) { return told("force", at, answer); };
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
        << "that release by force was before the acquire";
    EXPECT_EQ(broken(first + force(200, "result=yes") + second("220", 215)), "") << "then taken by another client";
    EXPECT_EQ(broken(first + force(200, "result=no") + second("220", 215)), "unexplained");
    EXPECT_EQ(broken(first + force(200, "result=yes") + guarded(1000, "result=yes")), "I11");
}

} // namespace
