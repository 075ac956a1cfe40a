// The block algorithms in the host's form.
#include <algorithm>

#include <truestep/distributed/element.hpp>

#include "algorithms/exchanged_values.hpp"
#include "algorithms/local.hpp"
#include "algorithms/mask.hpp"
#include "algorithms/update.hpp"
#include "machine.hpp"
#include "operations.hpp"

namespace truestep::properties::scape::floats {

namespace {

using gpu::HostMachine;
using gpu::tile;
constexpr Index tiles = (batch_size + tile - 1) / tile;
constexpr int threads = 256;
constexpr int kinds = 4;

struct BlockMask {
    BlockMask(gpu::Machine& machine, const Mask& mask) {
        const auto count = static_cast<Index>(mask.word_count());
        machine.resize(words, count);
        machine.resize(ranks, count);
        machine.resize(offsets, tiles + 1);
        machine.resize(counts, tiles);
        machine.upload(words.data(), mask.words(), count);
        machine.run<gpu::scape::CountWords>((count + gpu::scape::CountWords::words - 1) /
                                                gpu::scape::CountWords::words,
                                            {0, count, view(), counts.data()});
        gpu::OffsetsOf<gpu::Machine>().run(machine, counts.data(), tiles, offsets.data());
    }
    gpu::scape::MaskView view() const { return {words.data(), ranks.data(), offsets.data()}; }

    HostMachine::Vector<std::uint64_t> words;
    HostMachine::Vector<std::uint16_t> ranks;
    HostMachine::Vector<Index> offsets;
    HostMachine::Vector<std::uint32_t> counts;
};

} // namespace

struct ThreadBuffers::Device {
    explicit Device(const ThreadBuffers& place) {
        for (int kind = 0; kind < kinds; ++kind) {
            last.emplace_back(machine, place.last(static_cast<Masks>(kind)));
            current.emplace_back(machine, place.current(static_cast<Masks>(kind)));
        }
    }
    gpu::Machine machine{threads, 0};
    std::vector<BlockMask> last;
    std::vector<BlockMask> current;
    std::vector<float> moment = std::vector<float>(batch_size);
};

ThreadBuffers::ThreadBuffers() {
    Random random(1);
    for (const double density :
         {1.0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.01, 0.01}) { // of last and current, by kind
        Mask mask(batch_size);
        for (Index i = 0; i < batch_size; ++i)
            if (random.unit() < density)
                mask.set(i);
        mask.count();
        masks_.push_back(std::move(mask));
    }
    device = std::make_unique<Device>(*this);
}

ThreadBuffers::~ThreadBuffers() = default;

const Mask& ThreadBuffers::last(Masks kind) const {
    return masks_[2 * static_cast<std::size_t>(kind)];
}
const Mask& ThreadBuffers::current(Masks kind) const {
    return masks_[2 * static_cast<std::size_t>(kind) + 1];
}

const float* ThreadBuffers::pack(const Mask& mask, const float* column) {
    if (mask.selected() == batch_size)
        return column;
    float* to = packed_.data();
    for (Index i = 0; i < batch_size; ++i)
        if (mask.test(i))
            *to++ = column[i];
    return packed_.data();
}

namespace on_device {

void local(ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    ThreadBuffers::Device& device = *place.device;
    const auto kind = static_cast<std::size_t>(batch.masks);
    std::copy_n(batch.input(2), batch_size, outcome.output(1));
    const float* m = place.pack(place.last(batch.masks), batch.input(0));
    device.machine.run<gpu::scape::LocalPass>(tiles, {batch.scalars,
                                                      batch_size,
                                                      batch.input(1),
                                                      outcome.output(1),
                                                      device.last[kind].view(),
                                                      m,
                                                      device.current[kind].view(),
                                                      place.payload.data(),
                                                      device.moment.data(),
                                                      {}});
}

void fold(ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    place.device->machine.run<gpu::scape::Fold>(
        tiles, {batch.scalars.workers, batch.workers, batch_size, batch.input(0), outcome.output(0)});
}

void end_of_step(ThreadBuffers& place, const Batch& batch, Outcome& outcome, bool momentum, bool clipping) {
    ThreadBuffers::Device& device = *place.device;
    std::copy_n(batch.input(0), batch_size, outcome.output(0));
    std::copy_n(batch.input(2), batch_size, outcome.output(1));
    gpu::scape::Results results{};
    results.clip_factor = batch.factor;
    device.machine.run<gpu::scape::Update>(
        tiles, {batch.scalars, momentum ? gpu::scape::Direction::momentum : gpu::scape::Direction::adam,
                clipping, batch_size, outcome.output(1), device.current[0].view(), outcome.output(0),
                batch.input(1), &results});
    outcome.finite = results.not_finite == 0;
}

void acceptable(ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    // A launch finds the first refused value. Only so many are found one by one; the others come from the
    // element function.
    constexpr int most_launches = 64;
    const float* g = batch.input(0);
    Index next = 0;
    Index first = 0;
    for (int launch = 0; next < batch_size && launch < most_launches; ++launch) {
        const Index size = batch_size - next;
        first = size;
        place.device->machine.run<gpu::scape::FirstRefused>((size + tile - 1) / tile,
                                                            {g + next, size, &first});
        std::fill_n(outcome.output(0) + next, first, 1.0F);
        if (first < size)
            outcome.output(0)[next + first] = 0.0F;
        next += first + 1;
    }
    for (; next < batch_size; ++next)
        outcome.output(0)[next] = distributed::element::acceptable(g[next]) ? 1.0F : 0.0F;
}

void square_sums(ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    // Computes ghat from M and m: with these scalars it is M.
    Scalars scalars;
    scalars.b1 = 0.0F;
    scalars.a1 = 1.0F;
    const std::vector<float> m(batch_size, 0.0F);
    std::vector<double> sums(tiles);
    place.device->machine.run<gpu::scape::SquareSums>(
        tiles, {scalars, batch_size, batch.input(0), m.data(), sums.data()});
    store_sums(sums, outcome);
}

} // namespace on_device

} // namespace truestep::properties::scape::floats
