// Holds the simulated devices: modules, streams with queued work, and the order in which it runs.
#include "device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <truestep/simulator/fault.hpp>

#include "fat_binary.hpp"
#include "known_bugs.hpp"

namespace truestep::simulator {

namespace {

struct Schedule {
    std::uint64_t seed = 1;
    std::uint64_t made = 0; ///< streams and communicators
};
thread_local Schedule schedule;

} // namespace

void set_schedule(std::uint64_t seed) {
    schedule = {seed, 0};
}

std::uint64_t next_seed() {
    constexpr std::uint64_t far = 0x9e37'79b9'7f4a'7c15;
    return schedule.seed * far + schedule.made++;
}

const Program& Module::get() {
    if (!read)
        program = parse(with_known_bug(ptx_of(fat_binary)));
    read = true;
    return program;
}

int& current_device() {
    thread_local int device = 0;
    return device;
}

int& open_groups() {
    thread_local int open = 0;
    return open;
}

Device& Device::get() {
    static Device device;
    return device;
}

std::shared_ptr<const Kernel> Device::kernel(const void* function) {
    for (const auto& module : modules) {
        const auto name = module->names.find(function);
        if (name == module->names.end())
            continue;
        const auto& kernels = module->get().kernels;
        const auto found = kernels.find(name->second);
        return found == kernels.end() ? nullptr : found->second;
    }
    return nullptr;
}

void Device::read_modules() {
    for (const auto& module : modules) {
        try {
            module->get();
        } catch (const std::exception&) {
            continue; // get() reports it again
        }
    }
}

Stream* Device::make_stream() {
    auto* const made = new Stream;
    made->device = current_device();
    made->random.seed(next_seed());
    made->for_kernels.seed(made->random() + schedule.made);
    streams_.insert(made);
    return made;
}

void Device::remove_stream(Stream* stream) {
    drain(*stream);
    streams_.erase(stream);
    delete stream;
    if (!std::ranges::all_of(streams_, [&](Stream* left) {
            return std::ranges::any_of(defaults_, [&](const auto& one) { return one.get() == left; });
        }))
        return;
    failed_ = cudaSuccess;
    why_.clear();
}

Stream& Device::stream(cudaStream_t handle) {
    if (handle != nullptr)
        return *reinterpret_cast<Stream*>(handle);
    auto& own = defaults_.at(static_cast<std::size_t>(current_device()));
    if (!own) {
        own = std::make_unique<Stream>();
        own->device = current_device();
        streams_.insert(own.get());
    }
    return *own;
}

Stream* Device::captured_by_this_thread() {
    for (Stream* const stream : streams_)
        if (stream->capturing && stream->capturer == std::this_thread::get_id())
            return stream;
    return nullptr;
}

void Device::put(Stream& stream, Operation operation) {
    if (stream.capturing) {
        stream.captured.push_back(std::move(operation));
        return;
    }
    stream.queue.push_back(std::move(operation));
    note_progress();
    if ((stream.random() & 15U) == 0)
        do_one(&stream);
}

bool Device::do_one(Stream* preferred) {
    const auto can = [this](const Stream& stream) {
        if (stream.queue.empty())
            return false;
        if (const auto* const meeting = std::get_if<std::shared_ptr<Meeting>>(&stream.queue.front()))
            return failed_ != cudaSuccess || (*meeting)->can_go_on();
        const Wait* const wait = std::get_if<Wait>(&stream.queue.front());
        return wait == nullptr || wait->mark->reached >= wait->number;
    };
    std::vector<Stream*> able;
    std::ranges::copy_if(streams_, std::back_inserter(able), [&](Stream* stream) { return can(*stream); });
    if (able.empty())
        return false;
    std::mt19937_64& random = preferred->random;
    Stream& next = can(*preferred) && (random() & 3U) != 0 ? *preferred : *able[random() % able.size()];
    note_progress();
    const Operation operation = next.queue.front();
    if (perform(next, operation))
        next.queue.pop_front();
    return true;
}

void Device::drain(Stream& stream) {
    while (!stream.queue.empty())
        if (!do_one(&stream) && !wait_for_others(stream))
            stream.queue.clear();
}

void Device::drain_all() {
    const auto all = streams_;
    for (Stream* const stream : all)
        if (streams_.contains(stream) && stream->device == current_device())
            drain(*stream);
}

bool Device::wait_for_others(Stream& stream) {
    const auto now = std::chrono::steady_clock::now();
    const std::string missing = what_is_missing();
    if (missing.empty()) {
        fail(cudaErrorLaunchTimeout, "streams wait for each other for ever");
        return false;
    }
    if (stream.seen != progress_) {
        stream.seen = progress_;
        stream.stuck_since = now;
    }
    if (now - stream.stuck_since >= patience) {
        fail(cudaErrorLaunchTimeout,
             "a stream has waited for " + std::to_string(patience.count()) + " ms: " + missing);
        return false;
    }
    pause();
    return true;
}

std::string Device::what_is_missing() const {
    std::string text;
    for (const Stream* const stream : streams_)
        if (!stream->queue.empty())
            if (const auto* const meeting = std::get_if<std::shared_ptr<Meeting>>(&stream->queue.front()))
                text += (text.empty() ? "" : "; ") + (*meeting)->waits_for();
    return text;
}

void Device::fail(cudaError_t error, const std::string& why) {
    failed_ = error;
    why_ = why;
    note_progress();
}

bool Device::perform(Stream& stream, const Operation& operation) {
    if (const Record* const record = std::get_if<Record>(&operation)) {
        record->mark->reached = std::max(record->mark->reached, record->number);
        return true;
    }
    if (failed_ != cudaSuccess)
        return true;
    try {
        if (const Launch* const launch = std::get_if<Launch>(&operation)) {
            machine_.launch(launch->kernel, launch->blocks, launch->threads, launch->parameters,
                            stream.for_kernels(), stream.device);
        } else if (const auto* const meeting = std::get_if<std::shared_ptr<Meeting>>(&operation)) {
            return (*meeting)->go_on(stream.random);
        } else if (const Copy* const one = std::get_if<Copy>(&operation)) {
            copy(*one);
        } else if (const Fill* const fill = std::get_if<Fill>(&operation)) {
            std::memset(addresses.bytes(memory(), fill->to, fill->bytes, true, "a fill"), fill->byte,
                        fill->bytes);
        }
    } catch (const std::exception& error) {
        fail(cudaErrorLaunchFailure, error.what());
    }
    return true;
}

void Device::copy(const Copy& copy) {
    const std::uint8_t* const from =
        copy.staged ? copy.staged->data()
                    : addresses.bytes(memory(), copy.from, copy.bytes, false, "the source of a copy");
    std::memmove(addresses.bytes(memory(), copy.to, copy.bytes, true, "the destination of a copy"), from,
                 copy.bytes);
}

} // namespace truestep::simulator
