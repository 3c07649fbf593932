#include "timer.hpp"

#include "thread.hpp"

namespace shedlock::internal {

timer::timer()
{
    add_watcher();
}

timer::~timer()
{
    {
        const std::lock_guard hold{mutex_};
        is_ending_ = true;
        changed_.notify_all();
    }
    for (auto &one : watchers_) // no more are added, because there are no alarms
        one.join();
}

void timer::watch()
{
    on_library_thread = true;
    std::unique_lock hold{mutex_};
    while (!is_ending_) {
        const auto first = alarms_.begin();
        if (first == alarms_.end()) {
            changed_.wait(hold);
        } else if (first->first.first > clock::now()) {
            changed_.wait_for(hold, limited_wait(first->first.first));
        } else {
            auto source = first->second;
            alarms_.erase(first);
            --watching_;
            if (!alarms_.empty())
                ensure_watcher();
            hold.unlock();
            source.request_stop(); // runs the owner's callbacks, which may take long
            hold.lock();
            ++watching_;
        }
    }
}

void timer::add_watcher()
{
    watchers_.reserve(watchers_.size() + 1);
    watchers_.push_back(quietly([this] { return std::thread{[this] { watch(); }}; }));
    ++watching_;
}

// If no watcher can be added (no memory, no thread), the next stop is requested only after a callback has returned.
void timer::ensure_watcher() noexcept
try {
    if (watching_ == 0)
        add_watcher();
} catch (const std::exception &) {
}

timer::key timer::add(clock::time_point at, const std::stop_source &source)
{
    const std::lock_guard hold{mutex_};
    const key number{at, ++last_number_};
    alarms_.emplace(number, source);
    ensure_watcher();
    changed_.notify_all();
    return number;
}

void timer::remove(const key &number)
{
    const std::lock_guard hold{mutex_};
    alarms_.erase(number); // absent if its time has come
}

// Moves the map's node, so that running out of memory cannot lose an alarm.
bool timer::move(key &number, clock::time_point at) noexcept
{
    const std::lock_guard hold{mutex_};
    auto entry = alarms_.extract(number);
    if (entry.empty())
        return false;
    number = {at, ++last_number_};
    entry.key() = number;
    alarms_.insert(std::move(entry));
    ensure_watcher();
    changed_.notify_all();
    return true;
}

timer::alarm::alarm(timer &owner, clock::time_point at, const std::stop_source &source)
    : timer_{owner}, key_{owner.add(at, source)}
{
}

timer::alarm::~alarm()
{
    timer_.remove(key_);
}

bool timer::alarm::move_to(clock::time_point at) noexcept
{
    return timer_.move(key_, at);
}

} // namespace shedlock::internal
