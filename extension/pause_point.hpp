// Where test/pairs may stop a session. In the product a pause point is nothing. There is none where a buffer, or
// anything else for which others wait uninterruptibly, is locked.
#pragma once

#ifdef SHEDLOCK_PAUSE_POINTS
namespace shedlock {
void pause_point(const char *name);
}
#define PAUSE_POINT(name) ::shedlock::pause_point(name)
#else
#define PAUSE_POINT(name) static_cast<void>(0)
#endif
