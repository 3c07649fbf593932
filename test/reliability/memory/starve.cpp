// starve(n) makes the n-th of this backend's next allocations fail, once; with 0, none fails. starve_left() returns how
// many allocations are left until then. Only allocations in contexts of the usual kind (AllocSet) count. The server has
// no hook for this, so the module changes the table of functions behind these contexts, in this process only.
#include <cstdint>

extern "C" {
#include "postgres.h"

#include "fmgr.h"
#include "nodes/memnodes.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 170000
#include "utils/memutils_internal.h"
#endif

#include <sys/mman.h>
#include <unistd.h>

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(starve);
PG_FUNCTION_INFO_V1(starve_left);
}

namespace {

MemoryContextMethods original;
int64 left = 0;

bool is_to_fail()
{
    return left > 0 && --left == 0;
}

#if PG_VERSION_NUM >= 170000
void *allocate(MemoryContext context, Size size, int flags)
{
    return is_to_fail() ? MemoryContextAllocationFailure(context, size, flags) : original.alloc(context, size, flags);
}

void *reallocate(void *pointer, Size size, int flags)
{
    return is_to_fail() ? MemoryContextAllocationFailure(GetMemoryChunkContext(pointer), size, flags)
                        : original.realloc(pointer, size, flags);
}
#elif PG_VERSION_NUM >= 160000
void *allocate(MemoryContext context, Size size)
{
    return is_to_fail() ? nullptr : original.alloc(context, size);
}

void *reallocate(void *pointer, Size size)
{
    return is_to_fail() ? nullptr : original.realloc(pointer, size);
}
#else
void *allocate(MemoryContext context, Size size)
{
    return is_to_fail() ? nullptr : original.alloc(context, size);
}

void *reallocate(MemoryContext context, void *pointer, Size size)
{
    return is_to_fail() ? nullptr : original.realloc(context, pointer, size);
}
#endif

void change_methods()
{
    auto *const methods = const_cast<MemoryContextMethods *>(TopMemoryContext->methods);
    original = *methods;
    const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const auto page = reinterpret_cast<std::uintptr_t>(methods) / size * size;
    const auto end = reinterpret_cast<std::uintptr_t>(methods + 1);
    if (mprotect(reinterpret_cast<void *>(page), end - page, PROT_READ | PROT_WRITE) != 0)
        elog(ERROR, "cannot change the methods of memory contexts: %m");
    methods->alloc = allocate;
    methods->realloc = reallocate;
}

} // namespace

extern "C" {

__attribute__((visibility("default"))) Datum starve(PG_FUNCTION_ARGS)
{
    if (!original.alloc)
        change_methods();
    left = PG_GETARG_INT64(0);
    PG_RETURN_VOID();
}

__attribute__((visibility("default"))) Datum starve_left(PG_FUNCTION_ARGS)
{
    (void) fcinfo;
    PG_RETURN_INT64(left);
}
}
