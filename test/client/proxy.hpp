// A TCP proxy in front of the server, with a network that fails when it is told to.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

class proxy {
public:
    proxy(); // to the server under test
    ~proxy();
    proxy(proxy const &) = delete;
    proxy &operator=(proxy const &) = delete;

    [[nodiscard]] std::string connection() const; // through it
    [[nodiscard]] std::string port() const { return std::to_string(port_); }

    void hold_replies();     // what the server answers, to anybody, does not arrive
    void hold_requests();    // what the clients of now have sent arrives late, even if they are gone by then
    void hold_newcomers();   // nor to connections made from now on
    void refuse_newcomers(); // there is no server any more for connections made from now on
    void let_go();           // all this has an end
    void cut();              // so have all connections; what was held is lost. New ones are as good as ever

    // As yet.
    [[nodiscard]] int refused() const { return refused_; }    // newcomers
    [[nodiscard]] int newcomers() const { return accepted_; } // that were not refused

    [[nodiscard]] bool holds_a_request();

private:
    struct pair {
        int client;
        int server;
        bool held;         // its replies
        bool late = false; // its requests
    };
    void work(std::stop_token const &);
    void accept_one();

    int listener_;
    int port_;
    std::mutex mutex_;
    std::list<pair> pairs_;
    enum class fate { pass, hold, refuse } newcomers_ = fate::pass;
    std::atomic<int> refused_ = 0, accepted_ = 0;
    std::jthread thread_;
};
