// Random numbers that are the same for the same seed with any library.
#pragma once

#include <cstdint>
#include <iterator>

class random_numbers {
public:
    explicit random_numbers(std::uint64_t seed) : state_(seed) {}
    std::int64_t between(std::int64_t low, std::int64_t high) // both included
    {
        const auto size = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) + 1;
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + (size == 0 ? next() : next() % size));
    }
    bool one_in(std::int64_t n) { return between(1, n) == 1; }
    template <typename List> const auto &any_of(const List &list)
    {
        return list[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(std::size(list)) - 1))];
    }

private:
    std::uint64_t next() // splitmix64
    {
        auto z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

    std::uint64_t state_;
};
