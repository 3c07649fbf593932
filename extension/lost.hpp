// The SQLSTATEs of our own, which clients test for. SL001, lock_lost: the lease is no longer ours. SL002, lock_done: an
// extend or a release was not done, because the acquisition has been released before as done.
#pragma once

#include "pg.hpp"

#define ERRCODE_LOCK_LOST MAKE_SQLSTATE('S', 'L', '0', '0', '1')
#define ERRCODE_LOCK_DONE MAKE_SQLSTATE('S', 'L', '0', '0', '2')
