// The ends over the backends of gpu/mapl as candidates: the host's form anywhere, the devices' where there
// are some.
#include "devices.hpp"

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/local_rank.hpp>
#include <truestep/gpu/peers.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif
#include <truestep/mapl/devices.hpp>
#include <truestep/mapl/planted_devices.hpp>

#include "candidate.hpp"

namespace truestep::mapl {

namespace {

using device_mistakes::Mistake;
using distributed::Peers;

/// Blocks of another size for each rank. Streams of different ranks are early and late with different work.
gpu::HostStream stream_of(int rank) {
    constexpr std::array sizes{problem::tunable(256, 64), 64, 32};
    return {sizes[static_cast<std::size_t>(rank) % sizes.size()],
            1 + 16 * static_cast<std::uint64_t>(rank)};
}

House blocks(Tapped& ranks, int /*peer*/) {
    const gpu::HostStream stream = stream_of(ranks.rank());
    return {mapl::make_block_peers(ranks, stream), make_block_backend(stream)};
}

Builds blocks_with(Mistake mistake) {
    return [mistake](Tapped& ranks, int) -> House {
        const gpu::HostStream stream = stream_of(ranks.rank());
        return {device_mistakes::make_block_peers(mistake, ranks, stream),
                device_mistakes::make_block_backend(mistake, stream)};
    };
}

#if defined(TRUESTEP_WITH_CUBLAS)

std::string no_cublas() {
    return products_unavailable();
}

/// All ranks on the first device, the first of them with launches through graphs: it has one end, and a
/// thread that puts a graph together on one stream may not allocate memory for another.
House one_device(Tapped& ranks, int /*peer*/) {
    gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
    const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = ranks.rank() == 0});
    return {mapl::make_cuda_peers(ranks, stream), make_cuda_backend(stream)};
}

Builds one_device_with(Mistake mistake) {
    return [mistake](Tapped& ranks, int) -> House {
        gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
        const gpu::CudaStream stream;
        return {device_mistakes::make_cuda_peers(mistake, ranks, stream),
                device_mistakes::make_cuda_backend(mistake, stream)};
    };
}

#else

std::string no_cublas() {
    return "built without cuBLAS, which multiplies matrices on a device";
}
House one_device(Tapped&, int) {
    return {};
}
Builds one_device_with(Mistake) {
    return one_device;
}

#endif

#if defined(TRUESTEP_WITH_CUBLAS) && defined(TRUESTEP_WITH_NCCL)

/// Links, and what is sent over them, copied out behind the work that makes it.
class TappedLinks final : public Peers {
  public:
    TappedLinks(Tapped& tapped, const gpu::CudaStream& stream, int peer)
        : tapped_(tapped), stream_(stream),
          links_(make_nccl_links(tapped.inner(), stream, peer, {.timeout = std::chrono::seconds(20)})) {}
    [[nodiscard]] int rank() const override { return links_->rank(); }
    [[nodiscard]] int size() const override { return links_->size(); }
    [[nodiscard]] std::string name() const override { return links_->name(); }
    [[nodiscard]] bool host_can_read(distributed::Traffic traffic) const override {
        return links_->host_can_read(traffic);
    }
    void send(distributed::Traffic traffic, int peer, std::uint64_t number,
              std::shared_ptr<const void> message, std::size_t bytes) override {
        if (host_can_read(traffic))
            tapped_.note(peer, message.get(), bytes);
        else
            tapped_.note_later(peer, gpu::copied_out(stream_, message.get(), bytes), bytes);
        links_->send(traffic, peer, number, std::move(message), bytes);
    }
    [[nodiscard]] std::unique_ptr<distributed::Incoming>
    receive(distributed::Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) override {
        return links_->receive(traffic, peer, number, bytes);
    }
    void must_go_on(distributed::Traffic traffic, int peer, std::uint64_t number) override {
        links_->must_go_on(traffic, peer, number);
    }
    void abandon() noexcept override { links_->abandon(); }
    void progress() override { links_->progress(); }
    void leave(const std::string& reason) noexcept override { links_->leave(reason); }

  private:
    Tapped& tapped_;
    gpu::CudaStream stream_;
    std::unique_ptr<Peers> links_;
};

/// A device for each rank of this machine.
Subjects a_device_each(Peers& ranks) {
    gpu::set_schedule(1 + 1024 * static_cast<std::uint64_t>(ranks.rank()));
    const int device = gpu::local_rank(ranks) % gpu::availability().devices;
    return ends_in([device](Tapped& given, int peer) -> House {
        const gpu::CudaStream stream({.device = device, .stream = nullptr, .graphs = false});
        return {std::make_unique<TappedLinks>(given, stream, peer), make_cuda_backend(stream)};
    });
}
std::string no_nccl() {
    return {};
}
std::string nccl() {
    return gpu::nccl_description();
}

#else

Subjects a_device_each(Peers&) {
    return {};
}
std::string no_nccl() {
    return "built without NCCL; TRUESTEP_NCCL_ROOT says where it is";
}
std::string nccl() {
    return {};
}

#endif

/// The simulator is no device, and no report may say so.
Seat seat() {
    const gpu::Availability here = gpu::availability();
    if (!here.simulated && here.devices == 0)
        return {.unavailable = here.text};
    return {.unavailable = no_cublas(), .runs_on = here.simulated ? std::string() : here.text};
}

Seat a_seat_each(const gate::Group& group) {
    Seat each = seat();
    const gpu::Availability here = gpu::availability();
    if (here.simulated && group.name() != "in_process")
        each.unavailable = "simulated NCCL joins the ranks of one process; leave out --communicator mpi";
    if (each.unavailable.empty())
        each = {.unavailable = no_nccl(),
                .runs_on = here.simulated ? std::string() : nccl(),
                .most_workers = here.devices};
    return each;
}

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    const std::string simulated = gpu::availability().simulated ? "-simulated" : "";
    return {std::make_shared<OnRanks>("cuda-blocks", ends_in(blocks), group),
            std::make_shared<OnRanks>("cuda" + simulated, ends_in(one_device), group, seat()),
            std::make_shared<OnRanks>("cuda-nccl" + simulated, a_device_each, group, a_seat_each(*group))};
}

std::vector<gate::Mistake> mistakes_on_devices(int first) {
    std::vector<gate::Mistake> all;
    const bool simulated = gpu::availability().simulated;
    for (const std::string where :
         {"blocks, in the host's form", simulated ? "kernels, simulated" : "kernels on a device"})
        for (const auto& mistake : device_mistakes::descriptions())
            all.push_back({first++, where + ": " + mistake.name, mistake.shows});
    return all;
}

std::shared_ptr<const gate::Implementation>
device_mistake(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group) {
    const auto count = static_cast<int>(device_mistakes::descriptions().size());
    const auto mistake = static_cast<Mistake>(1 + number % count);
    if (number < count)
        return std::make_shared<OnRanks>(name, ends_in(blocks_with(mistake)), group);
    return std::make_shared<OnRanks>(name, ends_in(one_device_with(mistake)), group, seat());
}

} // namespace truestep::mapl
