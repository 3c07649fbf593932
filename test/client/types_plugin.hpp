// The types of the functions catches, type and throws of types_plugin.cpp, a library that types_test loads.
#pragma once

#include <string>
#include <typeinfo>

namespace shedlock {
class client;
}

extern "C" {
using catches_lock_lost = bool(shedlock::client &, const std::string &name);
using type_of_lock_lost = const std::type_info *();
using throws_lock_lost = void(shedlock::client &, const std::string &name);
}
