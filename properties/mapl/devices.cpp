// The ends over the backends of gpu/mapl as implementations under test: the host's form anywhere, the
// devices' where there are devices.
#include "devices.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/forms.hpp>
#include <truestep/gpu/local_rank.hpp>
#include <truestep/gpu/peers.hpp>
#if defined(TRUESTEP_WITH_NCCL)
#include <truestep/gpu/nccl.hpp>
#endif
#include <truestep/gpu/mapl/devices.hpp>
#include <truestep/gpu/mapl/planted_devices.hpp>

#include "implementation.hpp"
#include "planted/plain.hpp"

namespace truestep::properties::mapl {

namespace {

using distributed::Peers;
using gpu::mapl::device_known_bugs::KnownBug;

template <class Stream>
EndResources house(KnownBug known_bug, Peers& ranks, const Stream& stream) {
    auto [peers, backend] = gpu::mapl::device_known_bugs::on_stream(known_bug, ranks, stream);
    return {std::move(peers), std::move(backend)};
}

EndFactory blocks(KnownBug known_bug) {
    return ends_in([known_bug](RecordingPeers& ranks, int) -> EndResources {
        return house(known_bug, ranks, gpu::HostStream::in_turn(ranks.rank(), 0));
    });
}

/// All ranks on the first device. Only the first has its launches in graphs: it has one end, and a thread
/// that captures a graph on one stream may not allocate memory for another.
EndFactory one_device([[maybe_unused]] KnownBug known_bug) {
#if defined(TRUESTEP_WITH_CUBLAS)
    return ends_in([known_bug](RecordingPeers& ranks, int) -> EndResources {
        gpu::set_schedule(ranks.rank());
        const bool graphs = known_bug == KnownBug::none && ranks.rank() == 0;
        const gpu::CudaStream stream({.device = 0, .stream = nullptr, .graphs = graphs});
        return house(known_bug, ranks, stream);
    });
#else
    return {};
#endif
}

#if defined(TRUESTEP_WITH_CUBLAS) && defined(TRUESTEP_WITH_NCCL)

/// Links whose messages are recorded, too: they are copied out behind the work that makes them.
class TappedLinks final : public Peers {
  public:
    TappedLinks(RecordingPeers& tapped, const gpu::CudaStream& stream, int peer)
        : tapped_(tapped), stream_(stream),
          links_(gpu::mapl::make_nccl_links(tapped.inner(), stream, peer,
                                            {.timeout = std::chrono::seconds(20)})) {}
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
    [[nodiscard]] std::unique_ptr<distributed::IncomingMessage>
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
    RecordingPeers& tapped_;
    gpu::CudaStream stream_;
    std::unique_ptr<Peers> links_;
};

/// One device for each rank of this machine.
EndFactory a_device_each(Peers& ranks) {
    gpu::set_schedule(ranks.rank());
    const int device = gpu::local_rank(ranks) % gpu::availability().devices;
    return ends_in([device](RecordingPeers& given, int peer) -> EndResources {
        const gpu::CudaStream stream({.device = device, .stream = nullptr, .graphs = false});
        return {std::make_unique<TappedLinks>(given, stream, peer), gpu::mapl::make_cuda_backend(stream)};
    });
}

#else

EndFactory a_device_each(Peers&) {
    return {};
}

#endif

} // namespace

gate::Implementations on_devices(const std::shared_ptr<const gate::Group>& group) {
    const gpu::Form device = gpu::form_of_one_device(gpu::mapl::missing_products());
    const gpu::Form each =
        gpu::form_of_a_device_each(group->name() == "in_process", gpu::mapl::missing_products());
    return {
        std::make_shared<GroupImplementation>("cuda-blocks", blocks(KnownBug::none), group,
                                              gate::Placement{.checks_messages = true}),
        std::make_shared<GroupImplementation>(device.name, one_device(KnownBug::none), group,
                                              gate::placement_of(device)),
        std::make_shared<GroupImplementation>(each.name, a_device_each, group, gate::placement_of(each))};
}

const gpu::DeviceMistakes& known_bugs_on_devices() {
    static const gpu::DeviceMistakes all{first_on_devices, gpu::mapl::device_known_bugs::descriptions()};
    return all;
}

std::shared_ptr<const gate::Implementation>
device_known_bug(int number, const std::string& name, const std::shared_ptr<const gate::Group>& group) {
    const auto known_bug = static_cast<KnownBug>(known_bugs_on_devices().planted_as(number));
    if (!known_bugs_on_devices().on_device(number))
        return std::make_shared<GroupImplementation>(name, blocks(known_bug), group);
    return std::make_shared<GroupImplementation>(
        name, one_device(known_bug), group,
        gate::placement_of(gpu::form_of_one_device(gpu::mapl::missing_products())));
}

} // namespace truestep::properties::mapl
