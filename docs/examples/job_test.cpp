// A test of a job, in a database of its own. The test chooses the ticks, so it needs no clock and no sleep.
// Needs a server with the extension, and a role that may create databases.
#include <iostream>
#include <shedlock/pqxx.hpp>

using namespace std::chrono;
using shedlock::pqxx_options;

namespace {

// The job. In production: pay(db, {.at_most = 10min, .cron = "30 2 * * 1-5", .zone = "Europe/Berlin", .retry = true})
bool pay(pqxx::connection &db, const pqxx_options &when)
{
    return shedlock::run(db, "interest", when,
                         [](pqxx::work &tx) { tx.exec("UPDATE account SET balance = balance + 1"); });
}

void expect(bool what, const char *says)
{
    if (!what)
        throw std::logic_error{says};
}

void test(pqxx::connection &db)
{
    const pqxx_options monday{.at_most = 10min, .tick = sys_days{2026y / 1 / 5}, .retry = true};
    const pqxx_options tuesday{.at_most = 10min, .tick = sys_days{2026y / 1 / 6}, .retry = true};

    expect(pay(db, monday), "Monday's run is done");
    expect(!pay(db, monday), "a second run on Monday is skipped");

    auto other = shedlock::try_acquire(db, "interest", tuesday); // as another host would
    expect(!pay(db, tuesday), "the job is skipped while another host runs it");
    other->release(shedlock::outcome::failed);
    expect(pay(db, tuesday), "the tick of a failed run is due again");

    pqxx::work tx{db};
    expect(tx.exec("SELECT balance FROM account")[0][0].as<int>() == 2, "two runs, two payments");
}

} // namespace

int main()
try {
    pqxx::connection server{"dbname=postgres"};
    const auto run = [&](const char *command) { pqxx::nontransaction{server}.exec(command); };
    run("DROP DATABASE IF EXISTS job_test_cpp");
    run("CREATE DATABASE job_test_cpp");
    {
        pqxx::connection db{"dbname=job_test_cpp"};
        pqxx::nontransaction{db}.exec("CREATE EXTENSION shedlock; CREATE TABLE account AS SELECT 0 AS balance");
        test(db);
    }
    run("DROP DATABASE job_test_cpp");
    std::cout << "passed\n";
} catch (const std::exception &failure) {
    std::cerr << failure.what() << '\n';
    return 1;
}
