// The end of the process. OpenSSL frees what it has in an exit handler, while threads of the library may be using it.
#pragma once

namespace shedlock::internal {

// Has OpenSSL register its exit handler, and then registers ours, which therefore runs before it. Ours lets no thread
// begin to use TLS any more, and waits until none does, for 5 s at most. Static objects that are made after this call
// are destroyed before both.
void prepare_for_exit() noexcept;

// For a program whose clients are all gone before it exits: OpenSSL is then initialised only if a connection needs it.
void skip_preparation_for_exit() noexcept;

[[nodiscard]] bool is_exiting() noexcept;

// While one of these lives, our exit handler, if it was registered, waits (for 5 s at most) before OpenSSL cleans up.
class tls_use {
public:
    tls_use() noexcept;
    ~tls_use();
    tls_use(const tls_use &) = delete;
    tls_use &operator=(const tls_use &) = delete;

    [[nodiscard]] bool is_allowed() const noexcept { return is_allowed_; } // not once the process is exiting

private:
    const bool is_allowed_;
};

} // namespace shedlock::internal
