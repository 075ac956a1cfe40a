#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <scape/mapl/checkpoint.hpp>
#include <scape/problem/error.hpp>

#include "subject.hpp"

namespace scape::mapl {

namespace {

template <class Any, class Made>
class Wrapped : public Any {
  public:
    template <class... Replicas>
    Wrapped(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
            Replicas... replicas)
        : made_(settings, std::move(state), peers, peer, replicas...) {}
    Floats subspace() override { return made_.subspace(); }
    Floats anchor() override { return made_.anchor(); }
    Floats anchor_gradient() override { return made_.anchor_gradient(); }
    void set_anchor(std::span<const float> table) override { made_.set_anchor(table); }
    EndState state() override { return made_.state(); }

  protected:
    Made made_;
};

class HostSender final : public Wrapped<AnySender, Sender> {
  public:
    using Wrapped::Wrapped;
    void forward(Index micro, std::span<const float> activations, std::span<const Id> ids) override {
        made_.forward(micro, activations, ids);
    }
    Floats backward(Index micro) override { return made_.backward(micro); }
    bool end_step(double rate) override { return made_.end_step(rate); }
    Floats subspace_gradient() override { return made_.subspace_gradient(); }
    Floats own_subspace_gradient() override { return made_.own_subspace_gradient(); }
};

class HostReceiver final : public Wrapped<AnyReceiver, Receiver> {
  public:
    using Wrapped::Wrapped;
    Receiver::Arrived forward(Index micro, Index tokens) override { return made_.forward(micro, tokens); }
    void backward(Index micro, std::span<const float> gradient) override {
        made_.backward(micro, gradient);
    }
    void end_step() override { made_.end_step(); }
};

std::unique_ptr<AnySender> host_sender(const Settings& settings, EndState state, distributed::Peers& peers,
                                       int peer, distributed::Communicator* replicas) {
    return std::make_unique<HostSender>(settings, std::move(state), peers, peer, replicas);
}

/// Which gets its A from its own sender.
std::unique_ptr<AnyReceiver> host_receiver(const Settings& settings, EndState state,
                                           distributed::Peers& peers, int peer,
                                           distributed::Communicator* /*replicas*/) {
    return std::make_unique<HostReceiver>(settings, std::move(state), peers, peer);
}

/// As distributed/mapl saves it and loads it again, in a folder of its own.
EndState through_a_file(const Settings& settings, const EndState& state, Side side, int boundary) {
    namespace fs = std::filesystem;
    std::string folder = (fs::temp_directory_path() / "mapl-restart-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr)
        throw Error(folder + ": the folder could not be made; check the disk");
    EndState loaded = load(save(folder, settings, state, side, boundary), settings, side, boundary);
    fs::remove_all(folder);
    return loaded;
}

} // namespace

Subjects host_ends() {
    return {host_sender, host_receiver, through_a_file, host_trainers()};
}

} // namespace scape::mapl
