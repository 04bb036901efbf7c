// allocs.h - which allocation (storage) a tensor lies in, who wrote it last, and the continuity
// check.
//
// Start at Allocs::find(). A storage is held by a weak reference, so its address cannot be handed
// to another storage while the table knows it; the bytes are freed as ever. What stays of a dead
// storage (its struct) splits the heap, so entries are dropped soon: each new storage makes the
// table look at those that came 2, 4, 8, ... kYoung before it, and at a few others in turn. Extents (who wrote which bytes last) are kept with --inputs
// only.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "blocks.h"

namespace tb
{

enum class Origin : uint8_t { unknown, empty, external, recorded };

// A view's geometry, without its sizes where it is one contiguous run.
struct Geometry {
    uint8_t dtype = 0;
    uint32_t elem = 0;
    int64_t offset = 0;     // bytes from the allocation to element (0, 0, ...)
    int64_t lo = 0, hi = 0; // bytes touched, relative to the allocation
    bool contiguous = true;
    std::vector<int64_t> dims; // sizes, then strides; empty if contiguous
};

struct Extent {
    Geometry geo;
    tb_fp fp{};
    uint64_t seq = TB_REC_NO_SEQ; // of its writer; TB_REC_NO_SEQ: no recorded writer
    uint64_t sure = 0;       // value of the event counter when the bytes were last as `fp` says
    const char *writer = ""; // operator's name, or how the bytes came to be
    bool check = true;       // false: changes behind us are explained
};

struct PendingWork; // collectives that have not finished yet (tap.cc)

struct Alloc {
    c10::StorageImpl *key = nullptr; // nullptr: free slot; kTomb: deleted
    const void *data = nullptr;
    size_t nbytes = 0;
    uint64_t id = 0;
    int64_t base =
        0; // bytes from the allocation's first address to this storage's (external aliases)
    Origin origin = Origin::unknown;
    int8_t device = -1;
    uint8_t pending = 0; // a collective writes it and was not seen to finish
    // the last recorded write, for operators that only wrap another
    uint64_t last_seq = TB_REC_NO_SEQ, last_key = 0, writes = 0;
    tb_fp last_fp{};
    std::unique_ptr<std::vector<Extent>> extents;
};

class Allocs
{
  public:
    std::mutex lock; // held by the caller around every call

    // find - the entry of a storage, made at first sight. nullptr: no memory. Valid until the next
    // find().
    Alloc *find(c10::StorageImpl *s)
    {
        if (cap_ == 0 || used_ * 10 >= cap_ * 7)
            if (!grow())
                return nullptr;
        size_t i = slot_of(s), tomb = SIZE_MAX;
        for (;; i = (i + 1) & (cap_ - 1)) {
            Alloc &a = table_[i];
            if (a.key == s) {
                refresh(a);
                return &a;
            }
            if (a.key == kTomb && tomb == SIZE_MAX)
                tomb = i;
            if (a.key == nullptr)
                break;
        }
        if (tomb != SIZE_MAX)
            i = tomb;
        else
            used_++;
        Alloc &a = table_[i];
        a = Alloc();
        a.key = s;
        c10::raw::weak_intrusive_ptr::incref(s);
        begin(a);
        look_at_young(s);
        return &a;
    }

    // forget_all - where no operators are recorded, nothing is gained by knowing storages for long
    void forget_all()
    {
        for (size_t i = 0; i < cap_; i++) {
            if (table_[i].key != nullptr && table_[i].key != kTomb)
                drop(table_[i]);
            table_[i].key = nullptr;
        }
        used_ = 0;
    }

  private:
    static inline c10::StorageImpl *const kTomb = reinterpret_cast<c10::StorageImpl *>(8);
    struct External {
        size_t nbytes;
        uint64_t id;
        c10::StorageImpl *storage;
    };

    static constexpr size_t kYoung = 64, kSweep = 4;

    Alloc *table_ = nullptr;
    size_t cap_ = 0, used_ = 0, hand_ = 0, born_ = 0;
    c10::StorageImpl *young_[kYoung] = {}; // the last new ones; only looked up by, never followed
    // the last storage at an address of device memory, where the allocator itself does not tell
    std::unordered_map<const void *, const c10::StorageImpl *> blocks_;
    std::map<const char *, External>
        external_; // live storages over somebody else's memory, by address

    size_t slot_of(const c10::StorageImpl *s) const
    {
        return ((uintptr_t)s >> 4) * 0x9e3779b97f4a7c15ull >> 20 & (cap_ - 1);
    }

    static bool dead(c10::StorageImpl *s)
    {
        return c10::raw::weak_intrusive_ptr::use_count(s) == 0;
    }

    // A storage whose memory was replaced (resize_) keeps its identity and loses what was known of
    // its bytes.
    void refresh(Alloc &a)
    {
        const void *data = a.key->data();
        size_t nbytes = a.key->nbytes();
        if (data == a.data && nbytes == a.nbytes)
            return;
        if (a.data != nullptr && a.extents)
            a.extents->clear();
        a.last_seq = TB_REC_NO_SEQ;
        end_block(a);
        a.data = data;
        a.nbytes = nbytes;
        begin_block(a);
    }

    // Device memory has the number that the CUDA recorder gave to the block it lies in, so that its
    // events and ours speak of the same. A block that it has not heard of is told. A later storage at
    // the same address is told before the old one is found to be dead: only the last one ends it.
    bool begin_block(Alloc &a)
    {
        const tb_rec_cuda *cuda = a.key->device_type() == c10::kCUDA ? R->cuda() : nullptr;
        uint64_t address = (uint64_t)(uintptr_t)a.data, offset = 0, bytes = 0;

        if (!cuda || !cuda->alloc || !cuda->block || a.data == nullptr || a.nbytes == 0)
            return false;
        bool tracked = blocks_tracked.load(std::memory_order_relaxed);
        uint64_t number = cuda->alloc(address, &offset, &bytes);
        if (a.key->resizable() && (!tracked || number == 0 || offset != 0 || bytes != a.nbytes)) {
            if (!tracked)
                blocks_[a.data] = a.key;
            cuda->block(a.device, address, a.nbytes);
            number = cuda->alloc(address, &offset, &bytes);
        }
        if (number == 0)
            return false;
        a.id = number;
        a.base = (int64_t)offset;
        return true;
    }

    void end_block(const Alloc &a)
    {
        auto it = blocks_.empty() ? blocks_.end() : blocks_.find(a.data);
        const tb_rec_cuda *cuda = it == blocks_.end() || it->second != a.key ? nullptr : R->cuda();

        if (!cuda)
            return;
        blocks_.erase(it);
        cuda->block(a.device, (uint64_t)(uintptr_t)a.data, 0);
    }

    void begin(Alloc &a)
    {
        a.data = a.key->data();
        a.nbytes = a.key->nbytes();
        a.device = a.key->device().index();
        if (begin_block(a)) {
            a.origin = a.key->resizable() ? Origin::unknown : Origin::external;
            return;
        }
        if (a.key->resizable() || a.data == nullptr) {
            a.id = R->alloc_new();
            return;
        }
        // memory that torch did not allocate: several storages may lie over the same bytes
        a.origin = Origin::external;
        const char *p = static_cast<const char *>(a.data);
        auto it = external_.upper_bound(p);
        if (it != external_.begin()) {
            --it;
            if (dead(it->second.storage)) {
                it = external_.erase(it);
            } else if (p >= it->first && p < it->first + it->second.nbytes) {
                a.id = it->second.id;
                a.base = p - it->first;
                return;
            }
        }
        a.id = R->alloc_new();
        external_[p] = External{a.nbytes, a.id, a.key};
    }

    // Drops what died of the entries it looks at. The entry of @s, just made, stays where it is.
    void look_at_young(c10::StorageImpl *s)
    {
        young_[born_ % kYoung] = s;
        for (size_t age = 2; age < kYoung; age *= 2)
            drop_if_known(young_[(born_ - age) % kYoung]);
        born_++;
        drop_if_known(young_[born_ % kYoung]); // the oldest
        for (size_t i = 0; i < kSweep; i++) {
            hand_ = (hand_ + 1) & (cap_ - 1);
            drop_dead(hand_);
        }
    }

    void drop_if_known(const c10::StorageImpl *s)
    {
        if (s == nullptr)
            return;
        size_t i = slot_of(s);
        while (table_[i].key != nullptr && table_[i].key != s)
            i = (i + 1) & (cap_ - 1);
        drop_dead(i);
    }

    void drop_dead(size_t i)
    {
        Alloc &a = table_[i];
        if (a.key != nullptr && a.key != kTomb && dead(a.key))
            drop(a);
    }

    void drop(Alloc &a)
    {
        if (a.origin == Origin::external) {
            auto it = external_.find(static_cast<const char *>(a.data));
            if (it != external_.end() && it->second.storage == a.key)
                external_.erase(it);
        }
        c10::StorageImpl *s = a.key;
        end_block(a);
        a.extents.reset();
        a.key = kTomb;
        // A tomb before a free slot holds nothing together.
        size_t i = (size_t)(&a - table_);
        for (; table_[(i + 1) & (cap_ - 1)].key == nullptr && table_[i].key == kTomb;
             i = (i - 1) & (cap_ - 1)) {
            table_[i].key = nullptr;
            used_--;
        }
        c10::raw::weak_intrusive_ptr::decref(s);
    }

    bool grow()
    {
        size_t live = 0;
        for (size_t i = 0; i < cap_; i++) {
            Alloc &a = table_[i];
            drop_dead(i);
            live += a.key != nullptr && a.key != kTomb;
        }
        size_t cap = 256;
        while (cap < live * 4)
            cap *= 2;
        Alloc *old = table_;
        size_t old_cap = cap_;
        Alloc *fresh = new (std::nothrow) Alloc[cap];
        if (!fresh)
            return false;
        table_ = fresh;
        cap_ = cap;
        used_ = live;
        for (size_t i = 0; i < old_cap; i++) {
            Alloc &a = old[i];
            if (a.key == nullptr || a.key == kTomb)
                continue;
            size_t at = slot_of(a.key);
            while (table_[at].key != nullptr)
                at = (at + 1) & (cap_ - 1);
            table_[at] = std::move(a);
        }
        delete[] old;
        return true;
    }
};

} // namespace tb
