// Causes faults in the clients and the server while a history is recorded. It sends signals, and executes SQL on a
// connection of its own. (The term is Jepsen's.)
#pragma once

#include "crowd.hpp"

#include <functional>
#include <map>
#include <pqxx/pqxx>
#include <sys/types.h>

namespace crowd {

using counts = std::map<std::string, std::int64_t>;

class nemesis {
public:
    // The connection must lead directly to the server, with an administrator's rights. The server must run as the same
    // operating-system user as this process, so that it can be sent signals.
    nemesis(std::string connection, std::vector<std::string> faults, scene const &, recorder &, counts &,
            std::uint64_t seed);
    ~nemesis(); // wakes the clients that it stopped

    // Causes one of the requested faults. clients: the process ids of the clients.
    void cause_fault(std::vector<pid_t> const &clients);
    void wake_sleepers();

private:
    void cause(std::string const &fault, std::vector<pid_t> const &clients);
    void kill_client(std::vector<pid_t> const &);
    void stop_client(std::vector<pid_t> const &);
    void signal_backend(std::string const &function, std::string const &fault);
    void kill_backend();
    void delete_row();
    void force_release();
    void change_table();
    void revoke(history::action, std::vector<std::string> const &names, std::function<bool()> const &);
    pqxx::result ask(std::string const &sql);

    std::string const where_;
    std::vector<std::string> const faults_;
    scene const &scene_;
    recorder &recorder_;
    counts &counts_;
    choices random_;
    std::unique_ptr<pqxx::connection> connection_;
    std::map<pid_t, microseconds> asleep_; // until when
};

} // namespace crowd
