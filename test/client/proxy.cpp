#include "proxy.hpp"

#include "server.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

int connect_to_server()
{
    addrinfo wanted{};
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    if (::getaddrinfo(server::host().c_str(), server::port().c_str(), &wanted, &found) != 0)
        throw std::runtime_error{"no address of the server"};
    const int to_server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::connect(to_server, found->ai_addr, found->ai_addrlen); // if this fails, so does the first pass()
    ::freeaddrinfo(found);
    return to_server;
}

// Returns false if one of the two sides has gone.
bool pass(int from, int to)
{
    char bytes[65536];
    const auto count = ::recv(from, bytes, sizeof bytes, 0);
    for (ssize_t done = 0; done < count;) { // a SIGSTOP may end a send() early
        const auto sent = ::send(to, bytes + done, static_cast<std::size_t>(count - done), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        done += sent;
    }
    return count > 0;
}

bool has_sent(int side)
{
    char byte = 0;
    return ::recv(side, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

} // namespace

proxy::proxy() : listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr *>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr *>(&address), &size) != 0)
        throw std::runtime_error{"cannot listen"};
    port_ = ::ntohs(address.sin_port);
    thread_ = std::jthread{[this](const std::stop_token &end) { work(end); }};
}

proxy::~proxy()
{
    thread_.request_stop();
    thread_.join();
    cut();
    ::close(listener_);
}

std::string proxy::connection() const
{
    return "host=127.0.0.1 port=" + port() + " sslmode=disable";
}

void proxy::hold_replies()
{
    const std::lock_guard hold{mutex_};
    newcomers_ = fate::hold;
    for (auto &one : pairs_)
        one.held = true;
}

void proxy::hold_requests()
{
    const std::lock_guard hold{mutex_};
    for (auto &one : pairs_)
        one.late = true;
}

void proxy::hold_newcomers()
{
    const std::lock_guard hold{mutex_};
    newcomers_ = fate::hold;
}

void proxy::refuse_newcomers()
{
    const std::lock_guard hold{mutex_};
    newcomers_ = fate::refuse;
}

void proxy::let_go()
{
    const std::lock_guard hold{mutex_};
    newcomers_ = fate::pass;
    for (auto &one : pairs_)
        one.held = one.late = false;
}

void proxy::cut()
{
    const std::lock_guard hold{mutex_};
    newcomers_ = fate::pass;
    for (const auto &one : pairs_) {
        ::close(one.client);
        ::close(one.server);
    }
    pairs_.clear();
}

std::size_t proxy::connections()
{
    const std::lock_guard hold{mutex_};
    return pairs_.size();
}

bool proxy::holds_a_request()
{
    const std::lock_guard hold{mutex_};
    return std::any_of(pairs_.begin(), pairs_.end(), [](const pair &one) { return one.late && has_sent(one.client); });
}

bool proxy::holds_a_reply()
{
    const std::lock_guard hold{mutex_};
    return std::any_of(pairs_.begin(), pairs_.end(), [](const pair &one) { return one.held && has_sent(one.server); });
}

void proxy::accept_one()
{
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (newcomers_ == fate::refuse) {
        ::close(client);
        ++refused_;
        return;
    }
    pairs_.push_back({client, connect_to_server(), newcomers_ == fate::hold});
    ++accepted_;
}

void proxy::work(const std::stop_token &end)
{
    while (!end.stop_requested()) {
        std::unique_lock hold{mutex_};
        std::vector<pollfd> all{{listener_, POLLIN, 0}};
        for (const auto &one : pairs_) {
            all.push_back({one.late ? -1 : one.client, POLLIN, 0});
            all.push_back({one.held ? -1 : one.server, POLLIN, 0});
        }
        hold.unlock();
        ::poll(all.data(), all.size(), 5); // not for long, because the test may call cut() or let_go()
        hold.lock();
        if (all.size() != 1 + 2 * pairs_.size())
            continue;
        std::size_t i = 1;
        for (auto one = pairs_.begin(); one != pairs_.end(); i += 2) {
            const bool alive = (one->late || all[i].revents == 0 || pass(one->client, one->server)) &&
                               (one->held || all[i + 1].revents == 0 || pass(one->server, one->client));
            if (!alive) {
                ::close(one->client);
                ::close(one->server);
            }
            one = alive ? std::next(one) : pairs_.erase(one);
        }
        if (all[0].revents != 0)
            accept_one();
    }
}
