// works.h - in which order the collectives of each process group end (pin nccl.gloo).
//
// A back end on the CPU works on several threads at once: which of its works ends first is chance.
// What it computes does not depend on that, so nothing of it is in an event: twinbit_works() tells
// it apart. Works on a device are not looked at: they end, as far as the host knows, when queued.
#pragma once

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#ifdef TB_HAVE_C10D
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace tb
{

// Works of one group, numbered as they begin. Filled by whatever thread ends them.
class Works
{
  public:
    explicit Works(std::string name) : name_(std::move(name))
    {
    }

    const std::string &name() const
    {
        return name_;
    }

    uint64_t begin()
    {
        std::lock_guard<std::mutex> hold(lock_);
        running_.insert(begun_);
        return begun_++;
    }

    void end(uint64_t number)
    {
        std::lock_guard<std::mutex> hold(lock_);
        auto at = running_.find(number);
        if (at == running_.end())
            return;
        early_ += at != running_.begin();
        running_.erase(at);
        ended_++;
        order_ = (order_ ^ number) * 0x9E3779B97F4A7C15u;
        order_ ^= order_ >> 29;
    }

    // Nobody will say when it ends.
    void forget(uint64_t number)
    {
        std::lock_guard<std::mutex> hold(lock_);
        running_.erase(number);
    }

    // Appends "NAME \t VALUE \n", nothing before the first has ended.
    void tell(std::string &out)
    {
        char text[120];
        std::lock_guard<std::mutex> hold(lock_);

        if (ended_ == 0)
            return;
        std::snprintf(text, sizeof(text),
                      "%llu works, %llu ended before an earlier one, order %016llx",
                      (unsigned long long)ended_, (unsigned long long)early_,
                      (unsigned long long)order_);
        out += name_ + "\t" + text + "\n";
    }

  private:
    std::mutex lock_;
    std::set<uint64_t> running_;
    std::string name_;
    uint64_t begun_ = 0, ended_ = 0, early_ = 0, order_ = 0;
};

struct Groups {
    std::mutex lock;
    std::vector<std::unique_ptr<Works>> list; // in the order of their first use; never freed
};
Groups &groups();

// Older torch has no names of groups.
template <class G> auto group_name(const G &g, int) -> decltype(std::string(g.getGroupName()))
{
    return g.getGroupName();
}
template <class G> std::string group_name(const G &, long)
{
    return "?";
}

// The group that @v is, if it is one, else null
static Works *works_of(const c10::IValue &v)
{
    if (!v.isObject() || v.type()->str().find("c10d.ProcessGroup") == std::string::npos)
        return nullptr;
    try {
        auto group = v.toCustomClass<::c10d::ProcessGroup>();
        std::string name = "group " + group_name(*group, 0) + " (" + group->getBackendName() +
                           ", " + std::to_string(group->getSize()) + " ranks)";
        Groups &all = groups();
        std::lock_guard<std::mutex> hold(all.lock);
        for (auto &w : all.list)
            if (w->name() == name)
                return w.get();
        all.list.push_back(std::make_unique<Works>(name));
        return all.list.back().get();
    } catch (...) {
        return nullptr; // a group without a back end
    }
}

} // namespace tb
#endif
