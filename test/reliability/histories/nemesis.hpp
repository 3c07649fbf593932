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
    nemesis(std::string connection, std::vector<std::string> faults, const scene &, recorder &, counts &,
            std::uint64_t seed);
    ~nemesis(); // wakes the clients that it stopped

    // Causes one of the requested faults. clients: the process ids of the clients.
    void cause_fault(const std::vector<pid_t> &clients);
    void wake_sleepers();

private:
    void cause(const std::string &fault, const std::vector<pid_t> &clients);
    void kill_client(const std::vector<pid_t> &);
    void stop_client(const std::vector<pid_t> &);
    void signal_backend(const std::string &function, const std::string &fault);
    void kill_backend();
    void delete_row();
    void force_release();
    void change_table();
    void revoke(history::action, const std::vector<std::string> &names, const std::function<bool()> &);
    pqxx::result ask(const std::string &sql);

    const std::string where_;
    const std::vector<std::string> faults_;
    const scene &scene_;
    recorder &recorder_;
    counts &counts_;
    choices random_;
    std::unique_ptr<pqxx::connection> connection_;
    std::map<pid_t, microseconds> asleep_; // until when
};

} // namespace crowd
