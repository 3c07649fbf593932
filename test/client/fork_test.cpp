// After fork() the child's copies are inert, and the parent's locks and clients work as before.
#include "fixture.hpp"
#include "proxy.hpp"

#include <csignal>
#include <future>
#include <sys/wait.h>

#if defined(__SANITIZE_THREAD__)
constexpr bool may_have_threads_in_a_child = false; // ThreadSanitizer ends a child that starts one
#else
constexpr bool may_have_threads_in_a_child = true;
#endif

namespace {

// What work returns in a child of this process. The result also shows if the child did not end normally.
std::string in_child(const std::function<std::string()> &work)
{
    int ends[2];
    if (::pipe(ends) != 0)
        return "no pipe";
    const auto child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        ::alarm(300);
        const auto text = work() + "the end";
        ::_exit(::write(ends[1], text.data(), text.size()) < 0);
    }
    ::close(ends[1]);
    std::string said;
    char bytes[4096];
    for (ssize_t count; (count = ::read(ends[0], bytes, sizeof bytes)) > 0;) // until the last child has gone
        said.append(bytes, static_cast<std::size_t>(count));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    return said.ends_with("the end") && status == 0 ? said.substr(0, said.size() - 7)
                                                    : said + "... ended by " + std::to_string(status);
}

template <typename Work> std::string unless_refused(const char *what, const Work &work)
{
    try {
        work();
    } catch (const shedlock::usage_error &) {
        return "";
    } catch (const std::exception &failure) {
        return std::string{what} + " threw: " + failure.what() + '\n';
    }
    return std::string{what} + " did something\n";
}

std::string unless_inert(shedlock::lock &lock)
{
    return (lock.held() ? "held\n" : "") + std::string{lock.stop_token().stop_requested() ? "stopped\n" : ""} +
           unless_refused("extend", [&] { lock.extend(1min); }) + unless_refused("release", [&] { lock.release(); }) +
           unless_refused("guard", [&] { (void) lock.guard_statement(); }) +
           unless_refused("complete", [&] { (void) lock.complete_statement(); }) +
           unless_refused("token", [&] { (void) lock.token(); }) + unless_refused("tick", [&] { (void) lock.tick(); }) +
           unless_refused("names", [&] { (void) lock.names(); }) + unless_refused("detach", [&] { lock.detach(); });
}

std::string unless_inert(shedlock::client &locks, const std::string &name)
{
    const shedlock::options how{.at_most = 1min};
    return unless_refused("try_acquire", [&] { (void) locks.try_acquire(name, how); }) +
           unless_refused("acquire", [&] { (void) locks.acquire(name, how, 1h); }) +
           unless_refused("run", [&] { (void) locks.run(name, how, [](shedlock::lock &) {}); }) +
           unless_refused("extend by token", [&] { locks.extend(name, token{1}, 1min); }) +
           unless_refused("release by token", [&] { locks.release(name, token{1}); }) +
           unless_refused("force_release", [&] { (void) locks.force_release(name); }) +
           unless_refused("pause", [&] { (void) locks.pause(name); }) +
           unless_refused("resume", [&] { (void) locks.resume(name); });
}

} // namespace

class fork_test : public with_server {
protected:
    std::optional<shedlock::client> own = client(server::connection());

    // What is not inert in a child. Also destroys the child's copies, as a return from main would.
    std::string all_unless_inert(std::optional<shedlock::lock> &lock)
    {
        auto said = unless_inert(*lock) + unless_inert(*own, name);
        auto moved = std::move(*lock);
        said += unless_inert(moved);
        lock.reset();
        own.reset();
        return said;
    }

    void expect_as_before(shedlock::lock &lock, std::int64_t number)
    {
        EXPECT_TRUE(lock.held());
        EXPECT_FALSE(lock.stop_token().stop_requested());
        EXPECT_EQ(server::state(name), "held");
        EXPECT_EQ(server::token(name), number);
        EXPECT_NO_THROW(lock.extend(1min));
        EXPECT_TRUE(own->try_acquire(name + " other", {.at_most = 1min}));
        EXPECT_EQ(heard.texts(), "");
    }
};

TEST_F(fork_test, a_child_leaves_its_parents_lock_alone)
{
    auto mine = own->try_acquire(name, {.at_most = 1min});
    const auto granted = server::token(name);
    EXPECT_EQ(in_child([&] { return all_unless_inert(mine); }), "");
    expect_as_before(*mine, granted);
}

TEST_F(fork_test, a_child_leaves_alone_a_lock_that_its_parent_keeps_alive)
{
    auto mine = own->try_acquire(name, {.at_most = 1h, .keep_alive = true});
    const auto granted = server::token(name);
    EXPECT_EQ(in_child([&] { return all_unless_inert(mine); }), "");
    for (int i = 0; i < 3; ++i) {
        const auto deadline = mine->deadline();
        let_pass(*own, 21min);
        EXPECT_TRUE(server::comes_true([&] { return mine->deadline() > deadline; }));
    }
    expect_as_before(*mine, granted);
}

TEST_F(fork_test, a_child_leaves_its_parents_lock_alone_when_it_assigns_to_its_copy_and_the_lease_ends_there)
{
    auto mine = own->try_acquire(name, {.at_most = 1min});
    auto second = own->try_acquire(name + " second", {.at_most = 1h});
    const auto granted = server::token(name);
    EXPECT_EQ(in_child([&] {
                  advance_clock(1h); // the child's own
                  const bool is_stopped = second->stop_token().stop_requested();
                  *mine = std::move(*second);
                  return (is_stopped ? "stopped\n" : "") + unless_inert(*mine);
              }),
              "");
    expect_as_before(*mine, granted);
}

TEST_F(fork_test, a_child_that_returns_from_the_work_leaves_its_parents_lock_alone)
{
    pid_t child = -1;
    int status = -1;
    const auto work = [&](shedlock::lock &mine) {
        const auto granted = server::token(name);
        child = ::fork();
        if (child == 0)
            return;
        ::waitpid(child, &status, 0);
        expect_as_before(mine, granted);
    };
    bool ran = false;
    try {
        ran = own->run(name, {.at_most = 1h}, work);
    } catch (const shedlock::usage_error &) {
        if (child == 0)
            ::_exit(0);
    } catch (...) {
        if (child == 0)
            ::_exit(2);
    }
    if (child == 0)
        ::_exit(1);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(ran);
    EXPECT_EQ(server::last_outcome(name), "done");
}

// A mutex that another thread held at the fork stays locked in the child.
TEST_F(fork_test, a_childs_copies_are_inert_also_when_a_call_was_under_way)
{
    proxy network;
    own.emplace(client(network.connection(), 1h));
    auto mine = own->try_acquire(name, {.at_most = 1min, .keep_alive = true});
    const auto granted = server::token(name);
    network.hold_replies();
    auto silent = std::async(std::launch::async,
                             [&] { EXPECT_TRUE(own->try_acquire(name + " 2", {.at_most = 1min})) << "in the end"; });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name + " 2") == "held"; }));
    EXPECT_EQ(in_child([&] { return all_unless_inert(mine); }), "");
    network.let_go();
    silent.get();
    expect_as_before(*mine, granted);
}

TEST_F(fork_test, a_childs_copies_are_inert_also_when_a_caller_was_waiting)
{
    auto mine = own->try_acquire(name, {.at_most = 1min});
    const auto granted = server::token(name);
    auto waiting = std::async(std::launch::async, [&] { return own->acquire(name, {.at_most = 1min}, 10min); });
    EXPECT_TRUE(server::comes_true(
        [&] { return server::ask("SELECT refused FROM shedlock_stats WHERE name = '" + name + "'") >= "1"; }));
    EXPECT_EQ(in_child([&] { return all_unless_inert(mine); }), "");
    expect_as_before(*mine, granted);
    mine.reset();
    EXPECT_TRUE(waiting.get());
}

TEST_F(fork_test, a_child_may_have_a_client_of_its_own)
{
    if (!may_have_threads_in_a_child)
        GTEST_SKIP();
    auto mine = own->try_acquire(name, {.at_most = 1min});
    EXPECT_EQ(in_child([&]() -> std::string {
                  shedlock::client fresh{server::connection(), {.timeout = 1min}};
                  const auto theirs = fresh.try_acquire(name + " 2", {.at_most = 1h, .keep_alive = true});
                  for (int i = 0; theirs && i < 3; ++i) {
                      const auto deadline = theirs->deadline();
                      advance_clock(21min);
                      server::comes_true([&] { return theirs->deadline() > deadline; });
                  }
                  if (!theirs || !theirs->held())
                      return "not held\n";
                  return fresh.try_acquire(name, {.at_most = 1s}) ? "it got the parent's lock\n" : "";
              }),
              "");
    EXPECT_EQ(server::state(name + " 2"), "free") << "released by its owner";
    expect_as_before(*mine, number(mine->token()));
}

// As daemon() does it.
TEST_F(fork_test, a_daemon_does_not_have_the_lock_of_its_parent)
{
    if (!may_have_threads_in_a_child)
        GTEST_SKIP();
    EXPECT_EQ(in_child([&]() -> std::string {
                  own.emplace(shedlock::client{server::connection(), {.timeout = 1min}});
                  auto mine = own->try_acquire(name, {.at_most = 1h});
                  if (::fork() != 0)
                      ::_exit(0);
                  ::alarm(300);
                  return mine ? all_unless_inert(mine) : "not acquired\n";
              }),
              "");
    EXPECT_EQ(server::state(name), "held") << "it was not released";
}
