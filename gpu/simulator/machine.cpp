// Launches a kernel on the simulator: starts blocks, passes barriers, and names places of faults.
#include <truestep/simulator/machine.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cxxabi.h>
#include <numeric>
#include <optional>

#include <truestep/simulator/fault.hpp>

#include "turn.hpp"

namespace truestep::simulator {

namespace {

/// Fills unwritten memory, for kernels that read it all the same.
constexpr std::uint8_t junk = 0xa5;

void begin(Block& block, std::uint32_t index, std::uint32_t blocks, std::uint32_t threads) {
    const Kernel& kernel = *block.kernel;
    block.index = index;
    block.now = block.intervals->begin(index);
    block.shared.assign(kernel.shared_bytes, junk);
    block.shared_written.forget(kernel.shared_bytes);
    block.warps.resize((threads + lanes - 1) / lanes);
    int first = 0;
    for (Warp& warp : block.warps) {
        const int count = std::min(lanes, static_cast<int>(threads) - first);
        warp.block = &block;
        warp.kernel = &kernel;
        warp.first_thread = first;
        warp.live = ~Lanes{0} >> (lanes - count);
        warp.at_barrier = warp.at_vote = 0;
        warp.next.fill(0);
        warp.registers.resize(static_cast<std::size_t>(kernel.registers) * lanes);
        warp.predicates.resize(static_cast<std::size_t>(kernel.predicates));
        // Kernels never write the given registers, so a reused block already has most of them.
        if (warp.row(threads_x)[0] == threads && warp.row(blocks_x)[0] == blocks) {
            std::fill_n(warp.row(block_x), lanes, std::uint64_t{index});
            first += lanes;
            continue;
        }
        for (int lane = 0; lane < lanes; ++lane) {
            const int thread = first + lane;
            warp.row(thread_x)[lane] = static_cast<std::uint64_t>(thread);
            warp.row(block_x)[lane] = index;
            warp.row(threads_x)[lane] = threads;
            warp.row(blocks_x)[lane] = blocks;
            warp.row(lane_id)[lane] = static_cast<std::uint64_t>(lane);
        }
        first += lanes;
    }
}

int count_of(const Block& block, Lanes Warp::*set) {
    int count = 0;
    for (const Warp& warp : block.warps)
        count += std::popcount(warp.*set);
    return count;
}

/// The barrier at which a lane waits is the instruction before its next one.
const Instruction& barrier_of(const Warp& warp, int lane) {
    return warp.kernel->code[static_cast<std::size_t>(warp.next[static_cast<std::size_t>(lane)]) - 1];
}

/// All warps wait: for a barrier that all have reached, or for ever.
void pass_barrier(Block& block) {
    const Warp* waiting = nullptr;
    const Warp* missing = nullptr;
    const Instruction* place = nullptr;
    for (const Warp& warp : block.warps) {
        for_each(warp.at_barrier, [&](int lane) {
            const Instruction& own = barrier_of(warp, lane);
            if (place != nullptr && place != &own)
                fault(warp, own, lane,
                      "a barrier while others of the block wait at another, PTX line " +
                          std::to_string(place->ptx_line));
            waiting = &warp;
            place = &own;
        });
        if ((warp.live & ~warp.at_barrier) != 0)
            missing = &warp;
    }
    if (missing != nullptr) {
        const int lane = std::countr_zero(missing->live & ~missing->at_barrier);
        const Instruction& own =
            block.kernel->code[static_cast<std::size_t>(missing->next[static_cast<std::size_t>(lane)])];
        fault(*missing, own, lane,
              std::string(own.kind == Kind::shuffle ? "a shuffle" : "a vote") +
                  " that not all of its members reach (" + std::to_string(count_of(block, &Warp::at_vote)) +
                  " threads wait here, " + std::to_string(count_of(block, &Warp::at_barrier)) +
                  " at a barrier)");
    }
    const int live = count_of(block, &Warp::live);
    const auto threads = static_cast<int>(block.warps.front().row(threads_x)[0]);
    if (live < threads)
        fault(*waiting, *place, std::countr_zero(waiting->at_barrier),
              "a barrier that not all threads of the block reach: " + std::to_string(threads - live) +
                  " have ended");
    block.now = block.intervals->begin(block.index);
    for (Warp& warp : block.warps)
        warp.at_barrier = 0;
}

} // namespace

Machine::Machine() = default;
Machine::~Machine() = default;

void fault(const Warp& warp, const Instruction& instruction, int lane, const std::string& what) {
    throw Fault(what + ": " + warp.kernel->where(instruction, warp.block->index, warp.first_thread + lane));
}

std::string Kernel::readable_name() const {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> readable(
        abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 ? readable.get() : name;
}

std::string Kernel::where(const Instruction& instruction, std::uint32_t block, int thread) const {
    const auto number = static_cast<std::size_t>(&instruction - code.data());
    std::string all = readable_name() + ", block " + std::to_string(block) + ", thread " +
                      std::to_string(thread) + ", PTX line " + std::to_string(instruction.ptx_line) + " `" +
                      text[number] + "`";
    if (const auto file = files->find(instruction.file); file != files->end())
        all += ", " + file->second + ":" + std::to_string(instruction.source_line);
    return all;
}

void Machine::launch(const std::shared_ptr<const Kernel>& kernel, std::uint32_t blocks,
                     std::uint32_t threads, const std::vector<std::uint8_t>& parameters, std::uint64_t seed,
                     int device) {
    constexpr std::uint64_t longest_turn = 400;
    constexpr std::size_t most_at_once = 4;
    constexpr std::uint64_t most_turns = 10'000'000; // of a block: minutes
    std::mt19937_64 random(seed);
    std::vector<std::uint32_t> order(blocks);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    intervals_.begin_launch();
    auto& spare = spare_[kernel];
    std::vector<std::unique_ptr<Block>> now;
    const std::size_t at_once = 1 + random() % most_at_once;
    std::uint64_t turns = 0;
    while (!order.empty() || !now.empty()) {
        while (!order.empty() && now.size() < at_once) {
            std::unique_ptr<Block> block;
            if (spare.empty()) {
                block = std::make_unique<Block>();
            } else {
                block = std::move(spare.back());
                spare.pop_back();
            }
            block->memory = &memory_;
            block->kernel = kernel.get();
            block->parameters = &parameters;
            block->random = &random;
            block->intervals = &intervals_;
            block->device = device;
            begin(*block, order.back(), blocks, threads);
            order.pop_back();
            now.push_back(std::move(block));
        }
        if (++turns > most_turns)
            throw Fault("a kernel that does not end: " + kernel->readable_name());
        const std::size_t which = random() % now.size();
        Block& block = *now[which];
        bool any = false;
        const std::size_t first = random() % block.warps.size();
        for (std::size_t n = 0; n < block.warps.size(); ++n) {
            Warp& warp = block.warps[(n + first) % block.warps.size()];
            if (warp.ready() == 0)
                continue;
            any = true;
            take_turn(warp, 1 + random() % longest_turn);
        }
        if (any)
            continue;
        if (count_of(block, &Warp::live) > 0) {
            pass_barrier(block);
            continue;
        }
        spare.push_back(std::move(now[which]));
        now.erase(now.begin() + static_cast<std::ptrdiff_t>(which));
    }
}

} // namespace truestep::simulator
