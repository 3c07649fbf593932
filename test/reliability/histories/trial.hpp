// One history: its file, its processes, its faults, and the result of the checker.
#pragma once

#include "nemesis.hpp"

namespace crowd {

using options = std::map<std::string, std::string>;

class trial {
public:
    trial(const options &, scene, counts &, std::vector<microseconds> &late);
    ~trial();
    trial(const trial &) = delete;
    trial &operator=(const trial &) = delete;

    void make();

    // Returns the number of broken promises. If there are any, prints the first five and keeps the file.
    std::size_t judge();

private:
    void arrange_table();
    void start_client();
    int be_client(int number);
    void watch(nemesis &);
    void await_last_clients();
    void reap();
    void final_look(recorder &);
    static bool insist(const std::function<void()> &);
    void look_at(operation &, recorder &own, const std::string &rows);
    void read_rows(operation &, const std::string &sql);
    void try_to_clean_up();
    void clean_up();
    bool has_owner(const std::string &prepared) const;
    void count(const history::record &);

    const options &given_;
    const scene scene_;
    counts &counts_;
    std::vector<microseconds> &late_;
    const std::string path_;
    const int file_;
    tally *const shared_;
    std::unique_ptr<pqxx::connection> old_snapshot_;
    int started_ = 0;
    std::vector<pid_t> clients_;
    std::map<pid_t, int> numbers_; // of the clients
};

std::vector<std::string> list(const std::string &text); // splits it at commas

} // namespace crowd
