#include "by_hand.hpp"

namespace {

using namespace by_hand;

TEST(checker, I7_sees_that_an_acknowledged_grant_is_forgotten)
{
    const auto look = [](const std::string &rows) {
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

TEST(checker, I7_knows_that_a_crash_may_undo_a_release)
{
    const auto rest = R"(call 3 client=1 do=release by=token names=a of=1 at=200
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
        << "no crash undoes only a part of a transaction";
    EXPECT_EQ(broken("history seed=1 crashes=yes\n" + first.substr(first.find('\n') + 1) + rest), "");
}

} // namespace
