// SL001, condition name lock_lost: the lease is no longer ours. The one SQLSTATE of our own; clients test for it.
#pragma once

#include "pg.hpp"

#define ERRCODE_LOCK_LOST MAKE_SQLSTATE('S', 'L', '0', '0', '1')
