// Waits on the server: one thread with one connection for all who wait through a client.
#pragma once

#include "session.hpp"

#include <map>
#include <set>
#include <thread>

namespace shedlock::internal {

// The thread asks the server, in slices of five seconds at most, for whom of them all locks may be free. While that is
// of no use, they rest a little between asking and asking. So do callers that come while the others already wait for as
// many names as one statement may have.
class waiting {
public:
    waiting(session::source, session &shared); // the callers', by which they have a slice ended
    ~waiting();                                // waits for the thread

    // Of one call, in the order in which they first waited.
    class place {
    public:
        place(waiting &, names const &);
        ~place();
        place(place const &) = delete;
        place &operator=(place const &) = delete;

        // After a refusal. Returns when one should ask again: all of the locks may be free, the time is over, a stop
        // was requested, or it was long ago. Until he waits again, or goes, nobody else is told that they are free.
        void wait(clock::time_point until, std::stop_token const & = {});

    private:
        friend class waiting;
        waiting &owner_;
        names const &names_;
        int in_vain_ = 0; // told that they may be free, and refused, in a row

        std::condition_variable changed_; // the owner's, under its mutex, as is what follows
        enum { elsewhere, waits, told, sent_away } state_ = elsewhere;
        clock::time_point until_{};
        std::uint64_t number_ = 0;
    };

private:
    struct slice { // names[i] is one of those in lists[which[i] - 1], each of which some callers wait for
        std::vector<std::vector<std::string>> lists;
        std::vector<std::string> names;
        std::vector<std::string> which;
        clock::duration wait{};
    };
    struct claim {
        place const *whose;
        clock::time_point end;
    };

    void wait(place &, std::stop_token const &);
    void leave(place &) noexcept;
    [[nodiscard]] bool has_room_for(names const &) const;
    void add(place &);
    void remove(place const &) noexcept;
    void end_slice_for(place &, std::unique_lock<std::mutex> &);
    [[nodiscard]] bool may_be_told(place const &) const;
    [[nodiscard]] bool is_missing(place const &) const;

    void work(std::stop_token const &);
    bool wait_for_places(std::stop_token const &);
    void run_slice(std::stop_token const &);
    slice begin_slice();
    bool end_slice(slice const &, clock::duration took, std::string const &free);
    void tell(slice const &, std::string const &free);
    void send_away() noexcept;

    session &shared_;
    session session_;
    clock::duration const grace_;
    std::string const room_;

    std::mutex mutex_; // for what follows
    std::condition_variable_any changed_;
    std::map<std::uint64_t, place *> places_;               // that wait
    std::map<std::vector<std::string>, std::size_t> lists_; // of names, and how many wait for them
    std::size_t names_count_ = 0;                           // in these lists
    std::uint64_t last_number_ = 0;
    std::map<std::string, claim> claims_;        // by name: who was told that it may be free, and asks now
    std::set<std::vector<std::string>> running_; // whose names are waited for in the slice that the server has
    clock::time_point began_{};                  // that did
    place const *ends_it_ = nullptr;             // and has it ended
    clock::time_point no_use_until_ = clock::time_point::min();
    std::jthread thread_; // the last member: it uses the others
};

} // namespace shedlock::internal
