// The commands of the tool. Each function returns the exit status.
#pragma once

#include "request.hpp"

namespace shedlock::tool {

int run(const request &);
int list(const request &);
int history(const request &);
int check(const request &);
int acquire(const request &);
int extend(const request &);
int release(const request &);
int pause(const request &);
int resume(const request &);
int forget(const request &);
int doctor(const request &);
int metrics(const request &);
int version(const request &);
int print_answer(const request &); // there is nothing else to do

} // namespace shedlock::tool
