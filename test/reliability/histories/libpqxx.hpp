// The only file here that depends on the version of libpqxx: 6.4 (Debian 12), 7.8 (Ubuntu 24.04), 7.10 (Debian 13) or
// 8.0.
#pragma once

#include <shedlock/types.hpp>

#include <new>
#include <optional>
#include <pqxx/pqxx>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#define SHEDLOCK_LIBPQXX (PQXX_VERSION_MAJOR * 100 + PQXX_VERSION_MINOR)

namespace shedlock::libpqxx {

using parameters = std::vector<std::optional<std::string>>;

// The elements of a result: pqxx::row and pqxx::field, from 8.0 on pqxx::row_ref and pqxx::field_ref.
using row = std::remove_cvref_t<decltype(std::declval<const pqxx::result &>()[0])>;
using field = std::remove_cvref_t<decltype(std::declval<const row &>()[0])>;

inline pqxx::result exec(pqxx::transaction_base &transaction, const std::string &sql, const parameters &values)
{
#if SHEDLOCK_LIBPQXX < 700
    std::vector<const char *> pointers;
    for (const auto &value : values)
        pointers.push_back(value ? value->c_str() : nullptr);
    return transaction.exec_params(sql, pqxx::prepare::make_dynamic_params(pointers));
#else
    // zview, because libpqxx copies the list: copying a variant with a string in it crashes in libstdc++ 13 and 14 when
    // memory runs out.
    pqxx::params list;
    for (const auto &value : values)
        value ? list.append(pqxx::zview{*value}) : list.append();
#if SHEDLOCK_LIBPQXX < 710
    return transaction.exec_params(sql, list);
#else
    return transaction.exec(sql, list);
#endif
#endif
}

// libpqxx 6.4 silently reopens a lost connection, and would repeat a request that may have been granted.
inline void never_reconnect([[maybe_unused]] pqxx::connection &connection)
{
#if SHEDLOCK_LIBPQXX < 700
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    connection.inhibit_reactivation(true);
#pragma GCC diagnostic pop
#endif
}

// Empty if the server did not send one. Not every version of libpqxx keeps the SQLSTATE of an error that has its own
// type.
inline std::string sqlstate(const pqxx::failure &failure)
{
    const auto *const reported = dynamic_cast<const pqxx::sql_error *>(&failure);
    if (reported && !reported->sqlstate().empty())
        return std::string{reported->sqlstate()};
    if (dynamic_cast<const pqxx::insufficient_privilege *>(&failure))
        return "42501";
    if (dynamic_cast<const pqxx::serialization_failure *>(&failure))
        return "40001";
    if (dynamic_cast<const pqxx::deadlock_detected *>(&failure))
        return "40P01";
    return {};
}

// The notices the server sends in addition to its answers, which libpqxx would print to stderr.
class remarks {
public:
    void forget() noexcept
    {
        texts_.clear();
        is_complete_ = true;
    }

    const std::vector<std::string> &since_forgotten() const
    {
        if (!is_complete_)
            throw std::bad_alloc{};
        return texts_;
    }

protected:
    // libpq, which is C, calls this, so an exception must not leave it.
    void add(std::string_view text) noexcept
    try {
        texts_.emplace_back(text);
    } catch (const std::bad_alloc &) {
        is_complete_ = false;
    }

private:
    std::vector<std::string> texts_;
    bool is_complete_ = true;
};

// Collects them during its lifetime.
#if SHEDLOCK_LIBPQXX < 710
class notices final : public remarks, pqxx::errorhandler {
public:
    explicit notices(pqxx::connection &connection) : errorhandler{connection} {}

    bool operator()(const char text[]) noexcept override
    {
        add(text);
        return false;
    }
};
#else
class notices final : public remarks {
public:
    explicit notices(pqxx::connection &connection) : connection_{connection}
    {
        connection_.set_notice_handler([this](pqxx::zview text) noexcept { add(text); });
    }
    ~notices() { connection_.set_notice_handler({}); }
    notices(const notices &) = delete;
    notices &operator=(const notices &) = delete;

private:
    pqxx::connection &connection_;
};
#endif

} // namespace shedlock::libpqxx
