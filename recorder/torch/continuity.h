// continuity.h - with --inputs: what an operator reads must be what the last recorded writer left
// there.
//
// Each allocation keeps the extents that were written, by whom and with which fingerprint.
// before_access() hashes those that an access touches again, in their writer's layout;
// after_write() replaces what was overwritten. All under the lock of Allocs.
#pragma once

#include "state.h"

namespace tb
{

constexpr size_t kMaxExtents =
    256; // an allocation; beyond it the oldest are forgotten, and counted

struct Unseen { // an extent whose bytes changed behind us
    const char *writer;
    uint64_t seq;
    uint64_t sure; // value of the event counter when they were last as expected
    int64_t lo, hi;
    tb_fp was, is;
};

static Geometry geometry_of(const Acc &a, const std::vector<int64_t> &arena)
{
    Geometry g;
    const int64_t *dims = arena.data() + a.dims;

    g.dtype = a.dtype;
    g.elem = a.elem;
    g.offset = a.offset;
    g.contiguous = a.contiguous;
    span(a, dims, &g.lo, &g.hi);
    g.lo += a.offset;
    g.hi += a.offset;
    if (!a.contiguous)
        g.dims.assign(dims, dims + 2 * a.ndim);
    return g;
}

static bool overlaps(const Geometry &x, const Geometry &y)
{
    return x.lo < y.hi && y.lo < x.hi;
}

static tb_fp hash_extent(const Alloc &al, const Geometry &g)
{
    const char *p = static_cast<const char *>(al.data) - al.base + g.offset;

    return hash_bytes(p, g.contiguous ? (uint64_t)(g.hi - g.lo) : 0, g.elem, (int)g.dims.size() / 2,
                      g.dims.data(), g.contiguous);
}

static bool inside(const Alloc &al, const Geometry &g)
{
    return g.lo >= al.base && g.hi <= al.base + (int64_t)al.nbytes;
}

static std::vector<Extent> &extents_of(Alloc &al)
{
    if (!al.extents)
        al.extents = std::make_unique<std::vector<Extent>>();
    return *al.extents;
}

static void add_extent(Alloc &al, Extent &&e, uint64_t *forgotten)
{
    std::vector<Extent> &list = extents_of(al);

    if (list.size() >= kMaxExtents) {
        list.erase(list.begin());
        ++*forgotten;
    }
    list.push_back(std::move(e));
}

// check_extent - hash an extent again; a change is reported once: the extent takes the value that
// is there now
static void check_extent(const Alloc &al, Extent &e, std::vector<Unseen> &unseen)
{
    if (!inside(al, e.geo))
        return;
    tb_fp now = hash_extent(al, e.geo);
    if (!tb_fp_equal(now, e.fp) && e.check)
        unseen.push_back(Unseen{e.writer, e.seq, e.sure, e.geo.lo, e.geo.hi, e.fp, now});
    e.fp = now;
    e.sure = R->seq();
}

// before_access - check every extent that @g touches; true if some known extent does
static bool before_access(Alloc &al, const Geometry &g, std::vector<Unseen> &unseen)
{
    bool known = false;

    for (Extent &e : extents_of(al))
        if (overlaps(e.geo, g)) {
            known = true;
            check_extent(al, e, unseen);
        }
    return known;
}

static bool covers(const Geometry &g, const Extent &e)
{
    if (g.contiguous && e.geo.lo >= g.lo && e.geo.hi <= g.hi)
        return true;
    return e.geo.offset == g.offset && e.geo.dims == g.dims && e.geo.lo == g.lo && e.geo.hi == g.hi;
}

// before_write - check every extent that @g overwrites in part
static void before_write(Alloc &al, const Geometry &g, std::vector<Unseen> &unseen)
{
    for (Extent &e : extents_of(al))
        if (overlaps(e.geo, g) && !covers(g, e))
            check_extent(al, e, unseen);
}

// forget_extents - @g was written by a device: what is there now is not known here
static void forget_extents(Alloc &al, const Geometry &g)
{
    std::vector<Extent> &list = extents_of(al);

    for (size_t i = 0; i < list.size();) {
        if (overlaps(list[i].geo, g))
            list.erase(list.begin() + (ptrdiff_t)i);
        else
            i++;
    }
}

// after_write - @g now holds what event @seq wrote: older extents inside it end, those that stick
// out are hashed again as they are now.
static void after_write(Alloc &al, Geometry &&g, tb_fp fp, uint64_t seq, const char *writer,
                        uint64_t *forgotten)
{
    std::vector<Extent> &list = extents_of(al);

    for (size_t i = 0; i < list.size();) {
        Extent &e = list[i];
        if (covers(g, e)) {
            list.erase(list.begin() + (ptrdiff_t)i);
            continue;
        }
        if (overlaps(e.geo, g) && inside(al, e.geo)) {
            e.fp = hash_extent(al, e.geo);
            e.sure = seq;
        }
        i++;
    }
    Extent e;
    e.geo = std::move(g);
    e.fp = fp;
    e.seq = seq;
    e.sure = seq;
    e.writer = writer;
    add_extent(al, std::move(e), forgotten);
}

} // namespace tb
