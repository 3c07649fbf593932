// Uses everything in the headers that is a template or inline, as an application would. test/headers compiles it.
#include <shedlock/pqxx.hpp>

using namespace std::chrono_literals;

void all_of_pqxx_hpp(pqxx::connection &db)
{
    shedlock::pqxx_options how{10min};
    how.every = 1h;
    shedlock::run(db, "a", how, [](pqxx::work &tx) { tx.exec("SELECT 1"); });
    shedlock::run(db, {"a", "b"}, how,
                  [](pqxx::work &, const shedlock::pqxx_lock &) { return shedlock::outcome::done; });
    shedlock::run<pqxx::robusttransaction<>>(db, std::string{"a"}, how, [](auto &) {});
    auto lock = shedlock::acquire(db, std::string_view{"a"}, how, 1min);
    lock->extend(1min, 1s);
    lock->release(shedlock::outcome::failed);
    pqxx::transaction<pqxx::isolation_level::serializable> tx{db};
    const auto granted = shedlock::try_acquire(tx, std::vector<std::string>{"a"}, how);
    shedlock::guard(tx, "a", granted->token);
    shedlock::complete(tx, "a", granted->token);
    shedlock::pqxx_lock mine{db, "a", granted->token, granted->tick};
    shedlock::guard(mine, tx);
    shedlock::commit(mine, tx);
}

#if __cplusplus >= 202002L
#include <shedlock/shedlock.hpp>

void all_of_shedlock_hpp(pqxx::connection &db)
{
    shedlock::client locks{[] { return std::string{}; }};
    (void) locks.run("a", {.at_most = 10min, .every = 1h}, [](shedlock::lock &) {});
    (void) locks.run({"a", "b"}, {.at_most = 10min}, [&db](shedlock::lock &lock) {
        pqxx::work tx{db};
        shedlock::guard(lock, tx);
        shedlock::commit(lock, tx);
        return shedlock::outcome::done;
    });
    shedlock::run(db, "a", {.at_most = 10min, .retry = true}, [](pqxx::work &) {});
}
#endif
