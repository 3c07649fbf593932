#include "trial.hpp"

#include "checker.hpp"
#include "lateness.hpp"
#include "libpqxx.hpp"
#include "processes.hpp"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <sstream>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace crowd {

using history::maker;
using history::result;

namespace {

maker kind_of_client(const scene &scene, int number)
{
    if (scene.only_library)
        return maker::library;
    if (scene.through_pooler)
        return number % 3 == 0 ? maker::library : maker::token;
    if (scene.is_shared && number % 5 != 0)
        return maker::token;
    constexpr std::array kinds{maker::token,   maker::session, maker::java, maker::library,
                               maker::session, maker::token,   maker::java};
    const auto kind = kinds.at(static_cast<std::size_t>(number) % kinds.size());
    return kind == maker::java && !scene.has_java ? maker::token : kind;
}

bool is_portable(const options &given)
{
    return given.contains("edition") && given.at("edition") == "portable";
}

} // namespace

std::vector<std::string> list(const std::string &text)
{
    std::vector<std::string> parts;
    std::istringstream in{text};
    for (std::string part; std::getline(in, part, ',');)
        parts.push_back(part);
    return parts;
}

trial::trial(const options &given, scene made, counts &all, std::vector<microseconds> &late)
    : given_{given}, scene_{std::move(made)}, counts_{all}, late_{late}, path_{given.at("folder") + "/" +
                                                                               std::to_string(scene_.seed) +
                                                                               ".history"},
      file_{::open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0644)},
      shared_{&processes::shared_memory<tally>()}
{
    if (file_ < 0)
        throw std::runtime_error{"cannot write " + path_};
    const history::record head{.allowed = list(given.contains("allow") ? given.at("allow") : ""),
                               .standby_missing = given.contains("standby"),
                               .has_crashes = given.contains("crashes"),
                               .is_portable = is_portable(given)};
    const auto line = history::head_line(head, std::to_string(scene_.seed), scene_.clients) + '\n';
    if (::write(file_, line.data(), line.size()) < 0)
        throw std::runtime_error{"cannot write " + path_};
    shared_->left = scene_.operations;
}

trial::~trial()
{
    ::close(file_);
    ::munmap(shared_, sizeof(tally));
}

void trial::make()
{
    recorder own{file_, *shared_, 0};
    insist([&] { arrange_table(); });
    {
        nemesis fate{
            given_.at("admin"), list(given_.contains("faults") ? given_.at("faults") : ""), scene_, own, counts_,
            scene_.seed};
        for (int i = 0; i < scene_.clients; ++i)
            start_client();
        watch(fate);
    }
    await_last_clients();
    old_snapshot_.reset();
    final_look(own);
}

std::size_t trial::judge()
{
    std::ifstream in{path_};
    const auto record = history::read(in);
    count(record);
    const auto late = lateness(record);
    late_.insert(late_.end(), late.begin(), late.end());
    const auto violations = checker::check(record);
    for (std::size_t i = 0; i < std::min<std::size_t>(violations.size(), 5); ++i)
        std::cout << checker::to_text(violations[i]);
    std::cout << "history " << scene_.seed << ": " << record.operations.size() << " operations, " << scene_.clients
              << " clients, " << scene_.names.size() + scene_.tick_names.size() << " names, " << violations.size()
              << " violations\n"
              << std::flush;
    if (violations.empty())
        ::unlink(path_.c_str());
    return violations.size();
}

void trial::arrange_table()
{
    pqxx::connection to_server{given_.at("admin")};
    pqxx::nontransaction{to_server}.exec(scene_.has_index
                                             ? "CREATE INDEX IF NOT EXISTS shedlock_until ON shedlock (lock_until)"
                                             : "DROP INDEX IF EXISTS shedlock_until");
    if (!is_portable(given_)) // the history before may have ended while the extension was dropped
        pqxx::nontransaction{to_server}.exec("CREATE EXTENSION IF NOT EXISTS shedlock");
    pqxx::nontransaction{to_server}.exec(scene_.keeps_history ? "SELECT shedlock_keep_history()"
                                                              : "DROP TABLE IF EXISTS shedlock_history");
    if (scene_.has_old_snapshot) {
        old_snapshot_ = std::make_unique<pqxx::connection>(given_.at("admin"));
        pqxx::nontransaction direct{*old_snapshot_};
        direct.exec("BEGIN ISOLATION LEVEL REPEATABLE READ");
        direct.exec("SELECT 1");
    }
}

void trial::start_client()
{
    const auto number = ++started_;
    const auto process = ::fork();
    if (process < 0)
        throw std::runtime_error{"cannot fork"};
    if (process > 0) {
        clients_.push_back(process);
        numbers_[process] = number;
        return;
    }
    ::_exit(be_client(number));
}

int trial::be_client(int number)
try {
    recorder mine{file_, *shared_, number};
    const auto kind = kind_of_client(scene_, number);
    const auto seed = scene_.seed * 1000 + static_cast<std::uint64_t>(number);
    const auto one =
        kind == maker::library ? make_library_client(scene_, mine, seed) : make_sql_client(scene_, mine, kind, seed);
    one->run();
    return 0;
} catch (const std::exception &failure) {
    std::cerr << "client " << number << ": " << failure.what() << std::endl;
    return 1;
}

// Waits until the clients have made all operations of the history, but no longer than a minute. Replaces clients that
// the nemesis kills.
void trial::watch(nemesis &fate)
{
    const auto pace = std::stoll(given_.at("pace")) * 1000;
    const auto end = now().at + 60'000'000;
    auto next_cleaning = now().at + 1'000'000;
    for (auto next = now().at + pace; !clients_.empty();) {
        fate.wake_sleepers();
        if (now().at > next_cleaning) {
            try_to_clean_up();
            next_cleaning = now().at + 1'000'000;
        }
        if (now().at > end)
            shared_->left = 0;
        if (shared_->left > 0 && now().at >= next) {
            fate.cause_fault(clients_);
            next = now().at + pace;
        }
        reap();
        if (shared_->left <= 0)
            return;
        pause(500);
    }
}

// A client may have to wait until a prepared transaction is cleaned up, because the client that prepared it is dead or
// has given it up. No client has a reason to wait for ten minutes.
void trial::await_last_clients()
{
    const auto end = now().at + 600'000'000;
    for (auto next = now().at + 3'000'000; !clients_.empty() && now().at < end;) {
        reap();
        pause(200);
        if (now().at > next) {
            try_to_clean_up();
            next = now().at + 1'000'000;
        }
    }
    for (const auto process : clients_) {
        ++counts_["client stuck"];
        ::kill(process, SIGKILL);
    }
    while (!clients_.empty())
        reap();
}

void trial::reap()
{
    int status = 0;
    const auto process = ::waitpid(-1, &status, WNOHANG);
    if (process <= 0)
        return;
    std::erase(clients_, process);
    shared_->ending[static_cast<std::size_t>(numbers_[process]) % shared_->ending.size()] = 0;
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (was_killed && shared_->left > 0)
        start_client();
    if (!was_killed && status != 0)
        ++counts_["client failed"];
}

// Reads the rows, the ledger and the history of runs after the last client has ended.
void trial::final_look(recorder &own)
{
    operation look{.what = history::action::look, .names = scene_.names};
    look.names.insert(look.names.end(), scene_.tick_names.begin(), scene_.tick_names.end());
    const auto ours = " WHERE name LIKE 'h" + std::to_string(scene_.seed) + ".%'";
    look_at(look, own,
            "SELECT name, (extract(epoch FROM locked_at) * 1000000)::bigint, "
            "(extract(epoch FROM lock_until) * 1000000)::bigint, false FROM shedlock" +
                ours);
    operation effects{.what = history::action::effects};
    // One query: sessions of clients that were killed may still be at work.
    look_at(effects, own,
            "SELECT name, coalesce(token, 0), run, false FROM ledger" + ours + " AND run IS NOT NULL" +
                (scene_.keeps_history ? " UNION ALL SELECT name, token, array_position('{done,failed,ran out,freed}', "
                                        "outcome), true FROM shedlock_history" +
                                            ours
                                      : ""));
}

void trial::look_at(operation &op, recorder &own, const std::string &rows)
{
    own.call(op);
    const bool is_done = insist([&] {
        op.rows.clear();
        op.endings.reset();
        if (op.what == history::action::effects && scene_.keeps_history)
            op.endings.emplace();
        clean_up();
        read_rows(op, rows);
    });
    op.result = is_done ? result::yes : result::lost;
    own.done(op);
}

// Tries again while the server restarts, for five minutes at most.
bool trial::insist(const std::function<void()> &work)
{
    for (const auto end = now().at + 300'000'000; now().at < end;)
        try {
            work();
            return true;
        } catch (const pqxx::failure &) {
            pause(50000);
        }
    return false;
}

void trial::read_rows(operation &op, const std::string &sql)
{
    pqxx::connection connection{given_.at("admin")};
    pqxx::nontransaction direct{connection};
    for (const auto &row : direct.exec(sql))
        (row[3].as<bool>() ? *op.endings : op.rows)
            .push_back({row[0].c_str(), row[1].as<microseconds>(), row[2].as<microseconds>()});
}

void trial::try_to_clean_up()
try {
    clean_up();
} catch (const pqxx::failure &) { // the server does not run at the moment
}

// Rolls back prepared transactions of clients that were killed or lost their connections, as an administrator would.
// The transaction of a client that is only slow must not be ended. If there is no standby, the nemesis cancels waits
// for it; the waits that are left when the nemesis has finished are cancelled here.
void trial::clean_up()
{
    pqxx::connection connection{given_.at("admin")};
    pqxx::nontransaction direct{connection};
    for (const auto &row :
         direct.exec("SELECT gid FROM pg_prepared_xacts WHERE gid LIKE '" + std::to_string(scene_.seed) + ".%'")) {
        if (has_owner(row[0].c_str()))
            continue;
        direct.exec("ROLLBACK PREPARED '" + std::string{row[0].c_str()} + "'");
        ++counts_["prepared transaction left over"];
    }
    if (given_.contains("standby"))
        direct.exec("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
}

// prepared: SEED.CLIENT.TRANSACTION
bool trial::has_owner(const std::string &prepared) const
{
    const auto last = prepared.rfind('.');
    const auto client = std::stoul(prepared.substr(prepared.find('.') + 1));
    return shared_->ending[client % shared_->ending.size()] == std::stoi(prepared.substr(last + 1));
}

void trial::count(const history::record &record)
{
    constexpr std::array makers{"session", "token", "java", "library"};
    ++counts_["histories"];
    for (const auto &op : record.operations) {
        ++counts_["operations"];
        ++counts_[std::string{makers.at(static_cast<std::size_t>(op.by))} + ' ' + history::to_text(op.what) + ' ' +
                  history::to_text(op.result)];
        ++counts_[std::string{"by "} + makers.at(static_cast<std::size_t>(op.by))];
        const bool acquires = op.what == history::action::acquire || op.what == history::action::run;
        if (acquires && op.result == result::yes)
            ++counts_["granted"];
        if (op.result == result::none)
            ++counts_["killed in mid-operation"];
        if (op.result == result::lost)
            ++counts_["lost in mid-operation"];
        if (!op.state.empty())
            ++counts_["state " + op.state];
        for (const auto &row : op.endings.value_or(std::vector<history::row>{}))
            ++counts_[std::string{"recorded as "} + history::to_text(static_cast<history::ending>(row.until))];
    }
}

} // namespace crowd
