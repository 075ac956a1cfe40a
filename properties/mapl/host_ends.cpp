// Makes the optimized sender and receiver of a MAPL boundary on the host, as ends under test.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <truestep/distributed/mapl/checkpoint.hpp>
#include <truestep/gate/lender.hpp>
#include <truestep/problem/error.hpp>

#include "end_factory.hpp"

namespace truestep::properties::mapl {

namespace {

template <class Any, class Made>
class Wrapped : public Any {
  public:
    template <class... Replicas>
    Wrapped(EndResources house, const Settings& settings, EndState state, distributed::Peers& peers,
            int peer, Replicas... replicas)
        : reads_there_(!house.backend), width_(static_cast<std::size_t>(settings.width)),
          peers_(std::move(house.peers)), made_(settings, std::move(state), peers_ ? *peers_ : peers, peer,
                                                replicas..., std::move(house.backend)) {}
    Floats subspace() override { return made_.subspace(); }
    Floats anchor() override { return made_.anchor(); }
    Floats anchor_gradient() override { return made_.anchor_gradient(); }
    void set_anchor(std::span<const float> table) override { made_.set_anchor(table); }
    EndState state() override { return made_.state(); }

  protected:
    /// One micro-batch in four is read from the backend's memory, if that is the host's.
    [[nodiscard]] bool leaves_there(Index micro) const { return reads_there_ && micro % 4 == 1; }
    [[nodiscard]] Floats read(const std::shared_ptr<const float>& there, std::size_t tokens) const {
        return {there.get(), there.get() + tokens * width_};
    }

  private:
    bool reads_there_;
    std::size_t width_;
    std::unique_ptr<distributed::Peers> peers_; ///< if they are the backend's, and not the caller's

  protected:
    Made made_;
};

/// Every second micro-batch goes the other way that there is: given away, and expected first.
bool is_other(Index micro) {
    return micro % 2 == 1;
}

/// A micro-batch is expected once; the second time is refused, and changes nothing.
template <class Expect>
void expect_once(const Expect& expect) {
    expect();
    gate::must_refuse(expect, "it expects a micro-batch twice");
}

class OurSender final : public Wrapped<AnySender, Sender> {
  public:
    using Wrapped::Wrapped;
    void forward(Index micro, std::span<const float> activations, std::span<const Id> ids) override {
        if (is_other(micro))
            made_.forward(micro, Floats(activations.begin(), activations.end()), ids);
        else
            lender_.lend_after_too_many(
                activations, [&](std::span<const float> lent) { made_.forward(micro, lent, ids); });
        tokens_[micro] = ids.size();
    }
    Floats backward(Index micro) override {
        if (is_other(micro))
            expect_once([&] { made_.expect(micro); });
        return leaves_there(micro) ? read(made_.backward_there(micro), tokens_[micro])
                                   : made_.backward(micro);
    }
    bool end_step(double rate) override { return made_.end_step(rate); }
    Floats subspace_gradient() override { return made_.subspace_gradient(); }
    Floats own_subspace_gradient() override { return made_.own_subspace_gradient(); }

  private:
    gate::Lender lender_;
    std::map<Index, std::size_t> tokens_; ///< of the last micro-batch of each number
};

class OurReceiver final : public Wrapped<AnyReceiver, Receiver> {
  public:
    using Wrapped::Wrapped;
    void expect(Index micro, Index tokens) override { made_.expect(micro, tokens); }
    Receiver::ReceivedActivations forward(Index micro, Index tokens) override {
        if (is_other(micro))
            expect_once([&] { made_.expect(micro, tokens); });
        if (!leaves_there(micro))
            return made_.forward(micro, tokens);
        Receiver::ReceivedActivationsThere came = made_.forward_there(micro, tokens);
        return {read(came.activations, static_cast<std::size_t>(tokens)), std::move(came.ids)};
    }
    void backward(Index micro, std::span<const float> gradient) override {
        lender_.lend_after_too_many(gradient,
                                    [&](std::span<const float> lent) { made_.backward(micro, lent); });
    }
    void end_step() override { made_.end_step(); }

  private:
    gate::Lender lender_;
};

/// Saves and loads a state as distributed/mapl does, in its own folder. A later step is there in part, and
/// as many files as would make it whole.
EndState through_a_file(const Settings& settings, const Settings& again, const EndState& state, Side side,
                        int boundary) {
    namespace fs = std::filesystem;
    std::string folder = (fs::temp_directory_path() / "mapl-restart-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr)
        throw Error(folder + ": the folder could not be made; check the disk");
    const std::shared_ptr<void> removed(nullptr, [&](void*) { fs::remove_all(folder); });
    for (int at = 0; at <= boundary; ++at)
        for (const Side each : {Side::sender, Side::receiver})
            save(folder, settings, state, each, at);
    EndState later = state;
    ++later.steps;
    const fs::path in_part = save(folder, settings, later, side, boundary);
    for (int at = 0; at < 2 * boundary + 1; ++at)
        std::ofstream(in_part / ("left-" + std::to_string(at) + ".partial"));
    const auto found = latest(folder, boundary + 1);
    if (!found || *found == in_part)
        throw Error(folder + ": the latest checkpoint is not the only one that is whole");
    return load(*found, again, side, boundary);
}

} // namespace

EndFactory ends_in(const Builds& build) {
    return {.sender = [build](const Settings& settings, EndState state, RecordingPeers& peers, int peer,
                              distributed::Communicator* replicas) -> std::unique_ptr<AnySender> {
                return std::make_unique<OurSender>(build(peers, peer), settings, std::move(state), peers,
                                                   peer, replicas);
            },
            .receiver = [build](const Settings& settings, EndState state, RecordingPeers& peers, int peer,
                                distributed::Communicator* /*replicas*/) -> std::unique_ptr<AnyReceiver> {
                // It gets its A from its own sender.
                return std::make_unique<OurReceiver>(build(peers, peer), settings, std::move(state), peers,
                                                     peer);
            },
            .kept = through_a_file,
            .trainer = host_trainers(),
            .any_names = true};
}

EndFactory host_ends() {
    return ends_in([](RecordingPeers&, int) { return EndResources(); });
}

} // namespace truestep::properties::mapl
