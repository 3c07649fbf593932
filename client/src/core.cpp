#include "core.hpp"

#include "cancellation.hpp"
#include "exit.hpp"
#include "thread.hpp"

#include <algorithm>

namespace shedlock::internal {

namespace {

std::chrono::milliseconds checked(std::chrono::milliseconds timeout)
{
    if (timeout <= timeout.zero())
        throw usage_error{"timeout must be positive", "22023"};
    return std::min<std::chrono::milliseconds>(timeout, std::chrono::years{100}); // in practice, for ever
}

void dispose(core *one) noexcept
try {
    const uncancelled here;
    if (!one->is_ours())
        return;
    if (on_library_thread) // a callback was the last owner, and the thread that it runs on would wait for itself
        quietly([one] { return std::thread{[one] { delete one; }}; }).detach();
    else
        delete one;
} catch (const std::exception &) { // no thread can be started, so it is leaked
}

} // namespace

core::core(session::source source, const client_settings &settings)
    : report{settings}, shared{source, checked(settings.timeout)}, waits{source, shared}, after{source,
                                                                                                shared.patience()},
      keeping(std::move(source), shared, report)
{
}

std::shared_ptr<core> core::make(session::source source, const client_settings &settings)
{
    const uncancelled here;
    prepare_for_exit();
    return {new core{std::move(source), settings}, dispose};
}

std::shared_ptr<lease> core::make_lease(const names &what, const grant &granted, clock::duration at_most)
try {
    return {new lease{time, what, granted, at_most}, [pid = process](lease *one) {
                if (::getpid() == pid)
                    delete one;
            }};
} catch (...) { // the caller gets no lock that it could release
    release(what, granted.token, outcome::failed, clock::now(), shared.time_limit());
    throw;
}

core &core::require()
{
    if (!is_ours())
        throw usage_error{
            "this process was forked from the one that made the client: make another client in this process"};
    return *this;
}

bool core::release(const names &what, token number, outcome how, clock::time_point until, clock::time_point over,
                   std::string_view detail)
try {
    const auto released = internal::release(shared, what, number, how, until, over, detail);
    shared.count_busy(false);
    if (!released.unclear.empty() && how == outcome::done)
        throw in_doubt{"it is not known whether " + what.to_text() +
                           " was released as done. A reply was lost, and the next one was: " + released.unclear,
                       sqlstate::lost};
    if (!released.unclear.empty())
        report(event::kind::release_unclear, what,
               [&] { return released.unclear + " (asked again, because an earlier reply was lost)"; });
    return released.was_done;
} catch (const busy &) {
    shared.count_busy(true);
    throw;
}

bool core::change(const std::string &call, const fields &arguments, const std::string &what)
try {
    return shared.ask("SELECT @extschema@." + call, arguments).rows.at(0)[0] == "t";
} catch (const reply_lost &failure) {
    throw in_doubt{"it is not known whether " + what + ". " + failure.what(), failure.sqlstate()};
}

} // namespace shedlock::internal
