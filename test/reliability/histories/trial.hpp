// One history: its file, its processes, the nemesis, and what the checker says in the end.
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

    // How many promises were broken; says which on stdout, and leaves the file then.
    std::size_t judge();

private:
    void arrange_table();
    void start_client();
    int be_client(int number);
    void watch(nemesis &);
    void say_goodbye();
    void reap();
    void final_look(recorder &);
    static bool insist(std::function<void()> const &);
    void look_at(operation &, recorder &own, std::string const &rows);
    void read_rows(operation &, std::string const &sql);
    bool try_to_clean_up();
    void clean_up();
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
};

std::vector<std::string> list(std::string const &text); // of what stands between commas

} // namespace crowd
