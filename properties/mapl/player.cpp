// A pipeline of stages: each rank takes its micro-batches forward and back in the order of the schedule.
#include "player.hpp"

#include <limits>
#include <stdexcept>
#include <utility>

#include <scape/problem/error.hpp>

namespace scape::mapl {

namespace {

/// Other peers, and every byte that is sent.
class Tapped final : public distributed::Peers {
  public:
    Tapped(distributed::Peers& inner, Seen& seen) : inner_(inner), seen_(seen) {}

    std::string when; ///< what the rank is doing

    [[nodiscard]] int rank() const override { return inner_.rank(); }
    [[nodiscard]] int size() const override { return inner_.size(); }
    [[nodiscard]] std::string name() const override { return inner_.name(); }
    void send(distributed::Traffic traffic, int peer, std::uint64_t number,
              std::shared_ptr<const void> message, std::size_t bytes) override {
        const auto* begin = static_cast<const std::uint8_t*>(message.get());
        auto& all = seen_.wire[wire_key(when, peer)];
        all.insert(all.end(), begin, begin + bytes);
        inner_.send(traffic, peer, number, std::move(message), bytes);
    }
    [[nodiscard]] std::unique_ptr<distributed::Incoming>
    receive(distributed::Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) override {
        return inner_.receive(traffic, peer, number, bytes);
    }
    void progress() override { inner_.progress(); }
    void leave(const std::string& reason) noexcept override { inner_.leave(reason); }

  private:
    distributed::Peers& inner_;
    Seen& seen_;
};

class Player {
  public:
    Player(const Scenario& scenario, const Subjects& subjects, distributed::Peers& peers)
        : scenario_(scenario), subjects_(subjects), tapped_(peers, seen_), rank_(peers.rank()),
          stage_(scenario.stage(rank_)) {}

    Seen play() {
        tapped_.when = "start";
        std::string refused;
        try {
            start(false);
        } catch (const Error& error) {
            refused = error.what();
        }
        seen_.refused["start"] = refused;
        if (!refused.empty())
            return std::move(seen_);
        if (scenario_.dies.rank < 0) {
            live();
            return std::move(seen_);
        }
        try {
            live();
        } catch (const std::runtime_error& ended) { // the stage's own, or that of one it needed
            seen_.refused["ended"] = ended.what();
            tapped_.leave(ended.what());
        }
        return std::move(seen_);
    }

  private:
    void live() {
        for (Index step = 0; step < scenario_.run.steps; ++step) {
            take_step(step);
            if (step + 1 == scenario_.run.restart) {
                keep_states();
                if (subjects_.kept)
                    pass_through_files();
                tapped_.when = "restart";
                start(true);
            }
        }
        show_sides(scenario_.run.steps);
        keep_states();
    }

    [[nodiscard]] bool receives() const { return rank_ > 0; }
    [[nodiscard]] bool sends() const { return rank_ + 1 < scenario_.workers(); }

    void start(bool again) {
        const auto state = [&](Index boundary, Side side, const char* kept) {
            return again ? seen_.states.at(kept) : scenario_.state(boundary, side);
        };
        receiver_.reset();
        sender_.reset();
        if (receives())
            receiver_ = subjects_.receiver(scenario_.settings(rank_ - 1, Side::receiver),
                                           state(rank_ - 1, Side::receiver, "r"), tapped_, rank_ - 1);
        if (sends())
            sender_ = subjects_.sender(scenario_.settings(rank_, Side::sender),
                                       state(rank_, Side::sender, "s"), tapped_, rank_ + 1);
    }

    void keep_states() {
        if (receiver_)
            seen_.states["r"] = receiver_->state();
        if (sender_)
            seen_.states["s"] = sender_->state();
    }

    void pass_through_files() {
        if (receiver_)
            seen_.states["r"] = subjects_.kept(scenario_.settings(rank_ - 1, Side::receiver),
                                               seen_.states["r"], Side::receiver, rank_ - 1);
        if (sender_)
            seen_.states["s"] = subjects_.kept(scenario_.settings(rank_, Side::sender), seen_.states["s"],
                                               Side::sender, rank_);
    }

    void show(const std::string& what, Floats values) { seen_.values[what] = std::move(values); }

    void show_sides(Index step) {
        if (sender_) {
            const EndState state = sender_->state();
            show(key(step, "s.A"), state.a);
            show(key(step, "s.m"), state.m);
            show(key(step, "s.E"), state.anchor);
            show(key(step, "s.C"), state.codebooks);
            show(key(step, "s.L"), state.learned);
        }
        if (receiver_) {
            show(key(step, "r.A"), receiver_->subspace());
            show(key(step, "r.E"), receiver_->anchor());
            if (scenario_.run.codewords > 0)
                show(key(step, "r.C"), receiver_->state().codebooks);
        }
    }

    /// A call with bad input, which has to be refused.
    template <class Call>
    void try_flaw(const Call& call) {
        std::string refused;
        try {
            call();
        } catch (const Error& error) {
            refused = error.what();
        }
        seen_.refused["flaw"] = refused;
    }

    void forward(Index step, Index micro) {
        tapped_.when = key(step, micro, "forward");
        const auto& dies = scenario_.dies;
        if (rank_ == dies.rank && step == dies.step && micro == dies.micro)
            throw std::runtime_error("rank " + std::to_string(rank_) + " has died");
        std::vector<Id> ids = scenario_.ids(step, micro);
        Floats arrived;
        if (receiver_) {
            Receiver::Arrived came = receiver_->forward(micro, static_cast<Index>(ids.size()));
            ids = std::move(came.ids);
            arrived = std::move(came.activations);
            show(key(step, micro, "Xhat"), arrived);
            show(key(step, micro, "ids"), {ids.begin(), ids.end()});
        }
        Floats x = stage_->forward(step, micro, arrived);
        if (!sender_)
            return;
        if (step == 0 && micro == 0 && scenario_.flaw == Flaw::id_beyond) {
            std::vector<Id> beyond = ids;
            beyond.back() = static_cast<Id>(scenario_.run.vocabulary);
            try_flaw([&] { sender_->forward(micro, x, beyond); });
        }
        if (step == 0 && micro == 0 && scenario_.flaw == Flaw::activation_not_finite) {
            Floats bad = x;
            bad.back() = std::numeric_limits<float>::infinity();
            try_flaw([&] { sender_->forward(micro, bad, ids); });
        }
        sender_->forward(micro, x, ids);
        show(key(step, micro, "X"), std::move(x));
    }

    void backward(Index step, Index micro) {
        tapped_.when = key(step, micro, "backward");
        Floats dx;
        if (sender_) {
            dx = sender_->backward(micro);
            show(key(step, micro, "dX"), dx);
        }
        Floats g = stage_->backward(step, micro, dx);
        if (!receiver_)
            return;
        if (step == 0 && scenario_.flaw == Flaw::gradient_not_finite && !seen_.refused.contains("flaw")) {
            Floats bad = g;
            bad.front() = std::numeric_limits<float>::quiet_NaN();
            try_flaw([&] { receiver_->backward(micro, bad); });
        }
        receiver_->backward(micro, g);
        show(key(step, micro, "G"), std::move(g));
    }

    void take_step(Index step) {
        show_sides(step);
        for (const Turn& turn :
             turns(scenario_.run.schedule, rank_, scenario_.workers(), scenario_.run.micro))
            if (turn.forward)
                forward(step, turn.micro);
            else
                backward(step, turn.micro);
        tapped_.when = key(step, "end");
        if (receiver_)
            receiver_->end_step();
        if (sender_) {
            show(key(step, "updated"), {sender_->end_step(scenario_.rate) ? 1.0F : 0.0F});
            show(key(step, "s.gA"), sender_->subspace_gradient());
            train(*sender_, key(step, "s.dE"));
        }
        if (receiver_)
            train(*receiver_, key(step, "r.dE"));
        show(key(step, "dW"), stage_->parameter_gradient(step));
    }

    /// Plain SGD on an anchor, as a caller's optimizer would.
    void train(AnySide& side, const std::string& shown) {
        const Floats gradient = side.anchor_gradient();
        if (scenario_.run.anchors == Anchors::shared || scenario_.run.anchors == Anchors::two) {
            Floats table = side.anchor();
            for (std::size_t i = 0; i < table.size() && i < gradient.size(); ++i)
                table[i] -= static_cast<float>(scenario_.anchor_rate) * gradient[i];
            side.set_anchor(table);
        }
        show(shown, gradient);
    }

    const Scenario& scenario_;
    const Subjects& subjects_;
    Seen seen_;
    Tapped tapped_;
    int rank_;
    std::unique_ptr<Stage> stage_;
    std::unique_ptr<AnyReceiver> receiver_;
    std::unique_ptr<AnySender> sender_;
};

} // namespace

Seen play_stage(const Scenario& scenario, const Subjects& subjects, distributed::Peers& peers) {
    return Player(scenario, subjects, peers).play();
}

} // namespace scape::mapl
