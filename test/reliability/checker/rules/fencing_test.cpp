#include "by_hand.hpp"

namespace {

using namespace by_hand;

TEST(checker, I11_sees_a_guarded_commit_after_a_later_acquisition)
{
    EXPECT_EQ(broken(first + guarded(1050, "result=yes") + second("1120", 1110)), "");
    EXPECT_EQ(broken(first + guarded(1500, "result=yes")), "")
        << "the lease has ended, but no other client has taken the lock";
    EXPECT_EQ(broken(first + guarded(1500, "result=yes") + second("1120", 1110)), "I11");
    EXPECT_EQ(broken("history seed=1 edition=portable\n" + first.substr(first.find('\n') + 1) +
                     guarded(1500, "result=yes") + second("1120", 1110)),
              "I11");
    EXPECT_EQ(broken(first + guarded(1500, "result=error state=SL001") + second("1120", 1110)), "");
    EXPECT_EQ(broken(first + guarded(1125, "result=yes") + second("1120", 1110)), "")
        << "it may have been granted after the commit";
}

TEST(checker, I11_sees_a_guarded_commit_after_the_row_was_deleted)
{
    const std::string call = "call 9 client=0 do=revoke names=a at=940\n";
    EXPECT_EQ(broken(first + guarded(1000, "result=yes") + call + "done 9 result=yes at=950\n"), "I11");
    EXPECT_EQ(broken(first + guarded(1000, "result=yes") + call + "done 9 result=no at=950\n"), "")
        << "there was no row to delete";
}

TEST(checker, I11_sees_a_row_that_was_written_after_a_later_holder_had_looked)
{
    const auto holder = [](const char *ledger) {
        return std::string{R"(call 2 client=2 do=acquire by=token names=a at_most=1000 at_least=0 at=1110
done 2 result=yes token=1120 ledger=)"} +
               ledger + " at=1130\n";
    };
    EXPECT_EQ(broken(first + guarded(1125, "result=yes") + holder("0")), "I11");
    EXPECT_EQ(broken(first + guarded(1125, "result=yes") + holder("1")), "");
    EXPECT_EQ(broken(first + guarded(1125, "result=lost") + holder("0")), "");
}

} // namespace
