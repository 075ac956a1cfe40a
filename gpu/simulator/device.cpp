#include "device.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <scape/simulator/fault.hpp>

#include "fat_binary.hpp"

namespace scape::simulator {

namespace {

struct Schedule {
    std::uint64_t seed = 1;
    std::uint64_t streams = 0; ///< made with it
};
thread_local Schedule schedule;

} // namespace

void set_schedule(std::uint64_t seed) {
    schedule = {seed, 0};
}

const Program& Module::get() {
    if (!read)
        program = parse(ptx_of(fat_binary));
    read = true;
    return program;
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

Stream* Device::make_stream() {
    constexpr std::uint64_t far = 0x9e37'79b9'7f4a'7c15;
    auto* const made = new Stream;
    made->random.seed(schedule.seed * far + schedule.streams);
    made->for_kernels.seed(made->random() + ++schedule.streams);
    streams_.insert(made);
    return made;
}

void Device::remove_stream(Stream* stream) {
    drain(*stream);
    streams_.erase(stream);
    delete stream;
    if (!streams_.empty() && (streams_.size() > 1 || !default_ || !streams_.contains(default_.get())))
        return;
    failed_ = cudaSuccess;
    why_.clear();
}

Stream& Device::stream(cudaStream_t handle) {
    if (handle != nullptr)
        return *reinterpret_cast<Stream*>(handle);
    if (!default_) {
        default_ = std::make_unique<Stream>();
        streams_.insert(default_.get());
    }
    return *default_;
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
    if ((stream.random() & 15U) == 0)
        do_one(&stream);
}

bool Device::do_one(Stream* preferred) {
    const auto can = [](const Stream& stream) {
        if (stream.queue.empty())
            return false;
        const Wait* const wait = std::get_if<Wait>(&stream.queue.front());
        return wait == nullptr || wait->mark->reached >= wait->number;
    };
    std::vector<Stream*> able;
    std::ranges::copy_if(streams_, std::back_inserter(able), [&](Stream* stream) { return can(*stream); });
    if (able.empty())
        return false;
    std::mt19937_64& random = preferred->random;
    Stream& next = can(*preferred) && (random() & 3U) != 0 ? *preferred : *able[random() % able.size()];
    const Operation operation = std::move(next.queue.front());
    next.queue.pop_front();
    perform(next, operation);
    return true;
}

void Device::drain(Stream& stream) {
    while (!stream.queue.empty())
        if (!do_one(&stream)) {
            fail(cudaErrorLaunchTimeout, "streams wait for each other for ever");
            stream.queue.clear();
        }
}

void Device::drain_all() {
    const auto all = streams_;
    for (Stream* const stream : all)
        drain(*stream);
}

void Device::fail(cudaError_t error, const std::string& why) {
    failed_ = error;
    why_ = why;
}

void Device::perform(Stream& stream, const Operation& operation) {
    if (const Record* const record = std::get_if<Record>(&operation)) {
        record->mark->reached = std::max(record->mark->reached, record->number);
        return;
    }
    if (failed_ != cudaSuccess)
        return;
    try {
        if (const Launch* const launch = std::get_if<Launch>(&operation)) {
            machine_.launch(launch->kernel, launch->blocks, launch->threads, launch->parameters,
                            stream.for_kernels());
        } else if (const Copy* const one = std::get_if<Copy>(&operation)) {
            copy(*one);
        } else if (const Fill* const fill = std::get_if<Fill>(&operation)) {
            std::memset(addresses.bytes(memory(), fill->to, fill->bytes, true, "a fill"), fill->byte,
                        fill->bytes);
        }
    } catch (const std::exception& error) {
        fail(cudaErrorLaunchFailure, error.what());
    }
}

void Device::copy(const Copy& copy) {
    const std::uint8_t* const from =
        copy.staged ? copy.staged->data()
                    : addresses.bytes(memory(), copy.from, copy.bytes, false, "the source of a copy");
    std::memmove(addresses.bytes(memory(), copy.to, copy.bytes, true, "the destination of a copy"), from,
                 copy.bytes);
}

} // namespace scape::simulator
