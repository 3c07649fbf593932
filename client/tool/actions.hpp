// The commands of the tool. Each function returns the exit status.
#pragma once

namespace shedlock::tool {

struct request;

int run(const request &);
int list(const request &);
int check(const request &);
int answer_unknown(const request &); // what `check` does if its command line is wrong
int acquire(const request &);
int extend(const request &);
int release(const request &);
int pause(const request &);
int resume(const request &);
int forget(const request &);
int doctor(const request &);
int metrics(const request &);
int version(const request &);

} // namespace shedlock::tool
