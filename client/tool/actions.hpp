// The commands of the tool. Each function returns the exit status.
#pragma once

namespace shedlock::tool {

struct request;

int run(request const &);
int list(request const &);
int check(request const &);
int answer_unknown(request const &); // what `check` does if its command line is wrong
int acquire(request const &);
int extend(request const &);
int release(request const &);
int pause(request const &);
int resume(request const &);
int forget(request const &);
int doctor(request const &);
int metrics(request const &);
int version(request const &);

} // namespace shedlock::tool
