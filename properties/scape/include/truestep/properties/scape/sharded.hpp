// The optimized implementations of SCAPE for the gate.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gate/group.hpp>
#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape {

/// distributed::scape::Scape over any backend.
[[nodiscard]] std::unique_ptr<RankUnderTest>
truestep_candidate(const Setup& setup, std::unique_ptr<distributed::scape::Backend> backend,
                   distributed::scape::Reduction reduction, distributed::Communicator& communicator);

/// A rank on a stream. Ranks of one process exchange on their streams; processes exchange through the host.
template <class Stream>
class StreamPlace final : public Place {
  public:
    using MakeBackend =
        std::function<std::unique_ptr<distributed::scape::Backend>(const Setup&, const Stream&)>;

    StreamPlace(Stream stream, distributed::Communicator& ranks,
                std::unique_ptr<distributed::Communicator> on_stream, MakeBackend make_backend,
                distributed::scape::Reduction reduction)
        : stream_(std::move(stream)), ranks_(ranks), on_stream_(std::move(on_stream)),
          make_backend_(std::move(make_backend)), reduction_(reduction) {}

    distributed::Communicator& communicator() override { return on_stream_ ? *on_stream_ : ranks_; }
    std::unique_ptr<RankUnderTest> make(const Setup& setup, distributed::Communicator& counted) override {
        return truestep_candidate(setup, make_backend_(setup, stream_), reduction_, counted);
    }

  private:
    Stream stream_;
    distributed::Communicator& ranks_;
    std::unique_ptr<distributed::Communicator> on_stream_;
    MakeBackend make_backend_;
    distributed::scape::Reduction reduction_;
};

/// The implementations of gpu/scape: the host's form, and the devices' with the reason where they cannot
/// run here.
[[nodiscard]] std::vector<ImplementationSpec> on_devices(const Group& group);
/// One of them with a known bug of gpu/scape/planted, in the host's form or on a device. The caller sets
/// its name.
[[nodiscard]] ImplementationSpec with_device_bug(const Group& group, int number, bool on_device);

} // namespace truestep::properties::scape
