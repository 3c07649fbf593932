// One history: its file, its processes, its faults, and the result of the checker.
#pragma once

#include "nemesis.hpp"

namespace crowd {

using options = std::map<std::string, std::string>;

class trial {
public:
    trial(options const &, scene, counts &, std::vector<microseconds> &late);
    ~trial();
    trial(trial const &) = delete;
    trial &operator=(trial const &) = delete;

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
    static bool insist(std::function<void()> const &);
    void look_at(operation &, recorder &own, std::string const &rows);
    void read_rows(operation &, std::string const &sql);
    void try_to_clean_up();
    void clean_up();
    bool has_owner(std::string const &prepared) const;
    void count(history::record const &);

    options const &given_;
    scene const scene_;
    counts &counts_;
    std::vector<microseconds> &late_;
    std::string const path_;
    int const file_;
    tally *const shared_;
    std::unique_ptr<pqxx::connection> old_snapshot_;
    int started_ = 0;
    std::vector<pid_t> clients_;
    std::map<pid_t, int> numbers_; // of the clients
};

std::vector<std::string> list(std::string const &text); // splits it at commas

} // namespace crowd
