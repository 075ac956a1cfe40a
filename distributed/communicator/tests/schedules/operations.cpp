// The effects of the model's operations on the one execution: on histories, clocks and sleepers.

#include <string>
#include <utility>
#include <vector>

#include "model.hpp"

namespace truestep::distributed::model {

void Scheduler::set(std::uint64_t name, std::uint64_t& history, std::uint64_t next) {
    histories_ += mixed(name, next) - mixed(name, history);
    history = next;
}

/// A change for which a thread that yields may be waiting.
void Scheduler::progress() {
    for (std::size_t i = 0; i < count_; ++i)
        if (i != running_)
            threads_[i].yielded = false;
    fruitless_ = 0;
}

void Scheduler::step(const char* what, const Object& object) {
    running().doing = what;
    switch_threads();
    set(running_ + 1, running().history, mixed(running().history, object.name_));
    told_.push_back({steps_, running_, what, object.name_});
}

void Scheduler::observe(Object& object) {
    Thread& self = running();
    self.clock.join(object.clock_);
    set(running_ + 1, self.history, mixed(self.history, object.history_));
}

void Scheduler::glance(const Object& object) {
    set(running_ + 1, running().history, mixed(running().history, object.history_));
}

void Scheduler::overwrite(Object& object) {
    Thread& self = running();
    object.clock_ = self.clock;
    self.clock.tick(running_);
    set(running_ + 1, self.history, mixed(self.history, 1));
    set(object.name_, object.history_, mixed(self.history, object.name_));
    progress();
}

void Scheduler::update(Object& object, bool synchronizes) {
    Thread& self = running();
    if (synchronizes) {
        self.clock.join(object.clock_);
        object.clock_ = self.clock;
        self.clock.tick(running_);
    }
    set(running_ + 1, self.history, mixed(self.history, object.history_));
    set(object.name_, object.history_, mixed(self.history, object.name_));
    progress();
}

void Scheduler::yield() {
    Thread& self = running();
    self.doing = "yields";
    self.yielded = true;
    switch_threads();
    set(running_ + 1, self.history, mixed(self.history, 2));
}

void Scheduler::lock(Mutex& mutex) {
    const std::size_t self = running_;
    threads_[self].wants = &mutex;
    step("locks", mutex);
    threads_[self].wants = nullptr;
    mutex.held_ = true;
    update(mutex);
}

void Scheduler::unlock(Mutex& mutex) {
    if (!mutex.held_)
        fail("a mutex is unlocked that nobody holds");
    mutex.held_ = false;
    update(mutex);
}

bool Scheduler::sleep(ConditionVariable& variable, Mutex& mutex, const Time* deadline) {
    Thread& self = running();
    step("goes to sleep", variable);
    update(variable, false);
    variable.sleepers_.push_back(running_);
    unlock(mutex);
    self.sleeps_on = &variable;
    self.deadline = deadline;
    self.in_time = true;
    self.wants = &mutex;
    step("wakes up", variable);
    self.wants = nullptr;
    mutex.held_ = true;
    update(mutex);
    return self.in_time;
}

void Scheduler::notify(ConditionVariable& variable, bool all) {
    step(all ? "notifies all" : "notifies one", variable);
    if (variable.sleepers_.empty())
        return;
    update(variable, false); // the woken thread learns the other's past only by the mutex
    std::vector<std::size_t> woken = variable.sleepers_;
    if (!all && woken.size() > 1) {
        offered_ = 0;
        for (const std::size_t sleeper : woken)
            offer(Option::Kind::go_on, sleeper, false);
        ++steps_;
        woken = {chosen().thread};
    }
    for (const std::size_t thread : woken) {
        Thread& sleeper = threads_[thread];
        sleeper.sleeps_on = nullptr;
        set(thread + 1, sleeper.history, mixed(sleeper.history, running().history));
        variable.forget(thread);
    }
}

void Scheduler::join(std::size_t thread) {
    Thread& self = running();
    self.joins = &threads_[thread];
    self.doing = "joins";
    switch_threads();
    self.joins = nullptr;
    self.clock.join(threads_[thread].clock);
    set(running_ + 1, self.history, mixed(self.history, threads_[thread].history));
}

Scheduler::Region& Scheduler::region(std::size_t size) {
    regions_.push_back(std::make_unique<Region>());
    regions_.back()->bytes.resize(size);
    regions_.back()->places.resize(size);
    return *regions_.back();
}

void Scheduler::read(Place& place) {
    touch(&place, 1, false);
}

void Scheduler::write(Place& place) {
    touch(&place, 1, true);
}

void Scheduler::read(const void* from, std::size_t size) {
    std::size_t offset = 0;
    if (Region* const found = region_of(from, size, offset))
        touch(&found->places[offset], size, false);
}

void Scheduler::write(const void* to, std::size_t size) {
    std::size_t offset = 0;
    if (Region* const found = region_of(to, size, offset))
        touch(&found->places[offset], size, true);
}

Scheduler::Region* Scheduler::region_of(const void* at, std::size_t size, std::size_t& offset) {
    const auto begin = reinterpret_cast<std::uintptr_t>(at);
    for (const auto& region : regions_) {
        const auto first = reinterpret_cast<std::uintptr_t>(region->bytes.data());
        if (size == 0 || begin < first || begin + size > first + region->bytes.size())
            continue;
        if (region->gone)
            fail("a buffer is used after it was freed");
        offset = begin - first;
        return region.get();
    }
    return nullptr;
}

void Scheduler::touch(Place* places, std::size_t count, bool writes) {
    const Clock& clock = running().clock;
    for (std::size_t i = 0; i < count; ++i)
        if (!(writes ? places[i].write(running_, clock) : places[i].read(running_, clock)))
            fail(writes ? "memory is written while another thread may still use it"
                        : "memory is read while another thread may be writing it");
}

} // namespace truestep::distributed::model
