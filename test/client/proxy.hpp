// A TCP proxy in front of the server, as a network that fails when a test says so.
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
    proxy(const proxy &) = delete;
    proxy &operator=(const proxy &) = delete;

    [[nodiscard]] std::string connection() const; // through it
    [[nodiscard]] std::string port() const { return std::to_string(port_); }

    void hold_replies();     // the server's answers do not arrive, on any connection
    void hold_requests();    // requests on the present connections arrive late, even if the client is gone by then
    void hold_newcomers();   // the server's answers do not arrive on connections made from now on
    void refuse_newcomers(); // connections made from now on are closed at once
    void let_go();           // ends all of the above, and passes on what was held
    void cut();              // closes all connections, and loses what was held. New ones work

    // So far.
    [[nodiscard]] int refused() const { return refused_; }    // newcomers
    [[nodiscard]] int newcomers() const { return accepted_; } // that were not refused
    [[nodiscard]] std::size_t connections();                  // that are open now

    [[nodiscard]] bool holds_a_request();
    [[nodiscard]] bool holds_a_reply();

private:
    struct pair {
        int client;
        int server;
        bool held;         // its replies
        bool late = false; // its requests
    };
    void work(const std::stop_token &);
    void accept_one();

    int listener_;
    int port_;
    std::mutex mutex_;
    std::list<pair> pairs_;
    enum class fate { pass, hold, refuse } newcomers_ = fate::pass;
    std::atomic<int> refused_ = 0, accepted_ = 0;
    std::jthread thread_;
};
