// Where test/pairs may stop a session. In the product a pause point does nothing. There is none while a buffer is
// locked, or anything else for which other sessions wait uninterruptibly.
#pragma once

#ifdef SHEDLOCK_PAUSE_POINTS
namespace shedlock {
void pause_point(const char *name);
}
#define PAUSE_POINT(name) ::shedlock::pause_point(name)
#else
#define PAUSE_POINT(name) static_cast<void>(0)
#endif
