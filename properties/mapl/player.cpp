// A pipeline of stages: each rank takes its micro-batches forward and back in the order of the schedule.
#include "player.hpp"

#include <exception>
#include <limits>
#include <stdexcept>
#include <utility>

#include <truestep/distributed/peer_communicator.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::properties::mapl {

namespace {

using distributed::PeerCommunicator;

class Player {
  public:
    Player(const Scenario& scenario, const EndFactory& subjects, distributed::Peers& peers)
        : scenario_(scenario), subjects_(subjects),
          late_(scenario.held_back
                    ? std::make_unique<distributed::CountingPeers>(peers, held_back(scenario))
                    : nullptr),
          tapped_(late_ ? *late_ : peers, seen_.wire,
                  [&scenario](int rank) { return scenario.stage_of(rank); }),
          between_(late_ ? *late_ : peers, seen_.wire,
                   [&scenario](int rank) { return scenario.replica_of(rank); }),
          rank_(peers.rank()), place_(scenario.stage_of(rank_)), stage_(scenario.stage(place_)) {
        if (scenario.run.trainer == Trainer::none)
            return;
        replicas_ = std::make_unique<PeerCommunicator>(between_, scenario.ranks_of(place_));
        if (subjects.joined)
            joined_ = std::make_unique<PeerCommunicator>(peers, subjects.joined(scenario, rank_));
    }

    RankRecording play() {
        tapped_.when = "start";
        std::string refused;
        try {
            start(false);
        } catch (const Error& error) {
            refused = error.what();
        } catch (const distributed::Aborted& gone) { // the other side refused what only it knows
            if (!scenario_.ends_at_start)
                throw;
            refused = gone.what();
        }
        seen_.refused["start"] = refused;
        if (!refused.empty() || scenario_.ends_at_start)
            return std::move(seen_);
        if (!scenario_.may_end()) {
            live();
            return std::move(seen_);
        }
        try {
            live();
        } catch (const std::runtime_error& ended) { // of this stage, or of one that it needed
            seen_.refused["ended"] = ended.what();
            tapped_.leave(ended.what());
        }
        return std::move(seen_);
    }

  private:
    /// Destroys the ends while the stage's error passes, so that they know that no more will come.
    class Ends {
      public:
        explicit Ends(Player& player) : player_(player) {}
        Ends(const Ends&) = delete;
        Ends& operator=(const Ends&) = delete;
        ~Ends() {
            if (std::uncaught_exceptions() == before_)
                return;
            player_.sender_.reset();
            player_.receiver_.reset();
        }

      private:
        Player& player_;
        int before_ = std::uncaught_exceptions();
    };

    void live() {
        const Ends ends(*this);
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
        tapped_.settle();
    }

    [[nodiscard]] bool receives() const { return place_ > 0; }
    [[nodiscard]] bool sends() const { return place_ + 1 < scenario_.workers(); }
    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(scenario_.run.width); }
    /// The number of a micro-batch in the whole step, over all replicas.
    [[nodiscard]] Index number_of(Index step, Index micro) const {
        return scenario_.replica_of(rank_) * scenario_.micro_batches(step) + micro;
    }

    /// Both sides call a micro-batch by this name. Names run backwards where their order is free.
    [[nodiscard]] Index name_of(Index step, Index micro) const {
        const bool turned =
            subjects_.any_names && scenario_.flaw == Flaw::none && scenario_.run.seed % 2 == 1;
        return turned ? scenario_.micro_batches(step) - 1 - micro : micro;
    }

    void start(bool again) {
        const auto state = [&](Index boundary, Side side, const char* kept) {
            EndState begun = again ? seen_.states.at(kept) : scenario_.state(boundary, side);
            if (!again && scenario_.other_start)
                scenario_.other_start(scenario_.replica_of(rank_), side, begun);
            return begun;
        };
        receiver_.reset();
        sender_.reset();
        if (receives())
            receiver_ = subjects_.receiver(scenario_.settings(place_ - 1, Side::receiver),
                                           state(place_ - 1, Side::receiver, "r"), tapped_, rank_ - 1,
                                           replicas_.get());
        if (sends())
            sender_ =
                subjects_.sender(scenario_.settings(place_, Side::sender), state(place_, Side::sender, "s"),
                                 tapped_, rank_ + 1, replicas_.get());
        if (replicas_)
            start_trainer(again);
    }

    void start_trainer(bool again) {
        Floats parameters = stage_->parameters();
        const StageModel model = stage_model(scenario_, place_, static_cast<Index>(parameters.size()),
                                             subjects_.masks_shared_tables);
        for (AnySide* side : trained_sides()) {
            const Floats table = side->anchor();
            parameters.insert(parameters.end(), table.begin(), table.end());
        }
        const std::any kept = again ? trainer_->state() : std::any();
        trainer_.reset();
        trainer_ = subjects_.trainer(model, parameters, joined_ ? *joined_ : *replicas_);
        if (again)
            trainer_->restore(kept);
    }

    /// The sides whose tables the trainer has, in its order.
    [[nodiscard]] std::vector<AnySide*> trained_sides() const {
        const Anchors anchors = scenario_.run.anchors;
        return anchors == Anchors::shared || anchors == Anchors::two ? sides() : std::vector<AnySide*>();
    }

    [[nodiscard]] std::vector<AnySide*> sides() const {
        std::vector<AnySide*> sides{sender_.get(), receiver_.get()};
        std::erase(sides, nullptr);
        return sides;
    }

    void keep_states() {
        if (receiver_)
            seen_.states["r"] = receiver_->state();
        if (sender_)
            seen_.states["s"] = sender_->state();
    }

    void pass_through_files() {
        const auto pass = [&](const char* kept, Side side, int boundary) {
            const Settings settings = scenario_.settings(boundary, side);
            EndState& state = seen_.states[kept];
            if (scenario_.flaw == Flaw::file_of_other_settings) {
                Settings other = settings;
                change_a_setting(scenario_.run, other);
                try_flaw(
                    [&] { static_cast<void>(subjects_.kept(settings, other, state, side, boundary)); });
            }
            state = subjects_.kept(settings, settings, state, side, boundary);
        };
        if (receiver_)
            pass("r", Side::receiver, place_ - 1);
        if (sender_)
            pass("s", Side::sender, place_);
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
            show(key(step, "r.A"), first_a_.empty() ? receiver_->subspace() : std::exchange(first_a_, {}));
            show(key(step, "r.E"), receiver_->anchor());
            if (scenario_.run.codewords > 0)
                show(key(step, "r.C"), receiver_->state().codebooks);
        }
        if (trainer_)
            show(key(step, "w"), trainer_->parameters());
    }

    /// Makes a call with bad input. If there are several, all must be refused.
    template <class Call>
    void try_flaw(const Call& call) {
        std::string refused;
        try {
            call();
        } catch (const Error& error) {
            refused = error.what();
        }
        if (const auto [first, is] = seen_.refused.try_emplace("flaw", refused); !is && refused.empty())
            first->second.clear();
    }

    /// Sends one micro-batch more, asks all sides for their states, or sets their anchors, while a step is
    /// under way.
    void try_within_a_step() {
        if (sender_ && scenario_.flaw == Flaw::last_not_finite)
            try_flaw([&] {
                sender_->forward(scenario_.micro_batches(0), Floats(width(), not_finite(scenario_.run)),
                                 std::vector<Id>{0});
            });
        for (AnySide* side : sides())
            if (scenario_.flaw == Flaw::state_within_a_step)
                try_flaw([&] { static_cast<void>(side->state()); });
        for (AnySide* side : trained_sides())
            if (scenario_.flaw == Flaw::anchor_within_a_step)
                try_flaw([&] { side->set_anchor(side->anchor()); });
    }

    void forward(Index step, Index micro) {
        tapped_.when = key(step, micro, "forward");
        const Index name = name_of(step, micro);
        if (const auto& fails = scenario_.fails; fails.is_at(rank_, step, micro))
            if (tapped_.damage = fails.damage; !fails.damage)
                throw std::runtime_error("rank " + std::to_string(rank_) + " has died");
        std::vector<Id> ids = scenario_.ids(step, number_of(step, micro));
        Floats arrived;
        const Flaw flaw = step == 0 && micro == 0 ? scenario_.flaw : Flaw::none;
        if (receiver_) {
            const auto tokens = static_cast<Index>(ids.size());
            if (flaw == Flaw::state_within_a_step || flaw == Flaw::unlike_expected)
                receiver_->expect(name, tokens);
            if (flaw == Flaw::state_within_a_step)
                try_flaw([&] { static_cast<void>(receiver_->state()); });
            if (flaw == Flaw::unlike_expected)
                try_flaw([&] { static_cast<void>(receiver_->forward(name, tokens + 1)); });
            Receiver::ReceivedActivations came = receiver_->forward(name, tokens + scenario_.awaits_more);
            ids = std::move(came.ids);
            arrived = std::move(came.activations);
            show(key(step, micro, "Xhat"), arrived);
            show(key(step, micro, "ids"), halves_of(ids));
        }
        Floats x = scenario_.as_large(rank_, step, stage_->forward(step, number_of(step, micro), arrived));
        if (!sender_)
            return;
        if (flaw == Flaw::id_beyond) {
            std::vector<Id> beyond = ids;
            beyond.back() = static_cast<Id>(scenario_.run.vocabulary);
            try_flaw([&] { sender_->forward(name, x, beyond); });
        }
        if (flaw == Flaw::activation_not_finite) {
            Floats bad = x;
            bad.back() = not_finite(scenario_.run);
            try_flaw([&] { sender_->forward(name, bad, ids); });
        }
        if (flaw == Flaw::activation_too_large)
            try_flaw(
                [&] { sender_->forward(name, too_large(scenario_.run, x, sender_->subspace()), ids); });
        if (flaw == Flaw::codeword_too_large) {
            Floats twice = too_large(scenario_.run, Floats(width()), sender_->subspace());
            twice.insert(twice.end(), twice.begin(), twice.begin() + scenario_.run.width);
            try_flaw([&] { sender_->forward(name, twice, std::vector<Id>{0, 0}); });
        }
        sender_->forward(name, x, ids);
        show(key(step, micro, "X"), std::move(x));
    }

    void backward(Index step, Index micro) {
        tapped_.when = key(step, micro, "backward");
        const Index name = name_of(step, micro);
        Floats dx;
        if (sender_) {
            dx = sender_->backward(name);
            show(key(step, micro, "dX"), dx);
        }
        Floats g = scenario_.as_large(rank_, step, stage_->backward(step, number_of(step, micro), dx));
        if (!receiver_)
            return;
        const Flaw flaw = step == 0 && !seen_.refused.contains("flaw") ? scenario_.flaw : Flaw::none;
        if (flaw == Flaw::gradient_not_finite) {
            Floats bad = g;
            bad.front() = not_finite(scenario_.run);
            try_flaw([&] { receiver_->backward(name, bad); });
        }
        if (flaw == Flaw::gradient_too_large)
            try_flaw(
                [&] { receiver_->backward(name, too_large(scenario_.run, g, receiver_->subspace())); });
        receiver_->backward(name, g);
        show(key(step, micro, "G"), std::move(g));
    }

    void take_step(Index step) {
        show_sides(step);
        for (const Turn& turn :
             turns(scenario_.run.schedule, place_, scenario_.workers(), scenario_.micro_batches(step)))
            if (turn.forward)
                forward(step, turn.micro);
            else
                backward(step, turn.micro);
        tapped_.when = key(step, "end");
        if (step == 0)
            try_within_a_step();
        if (receiver_)
            receiver_->end_step();
        if (sender_) {
            if (const auto flawed = scenario_.flawed_rate(scenario_.replica_of(rank_)); flawed && step == 0)
                try_flaw([&] { sender_->end_step(*flawed); });
            between_.when = key(step, "mean");
            show(key(step, "updated"), {sender_->end_step(scenario_.rate_of(step)) ? 1.0F : 0.0F});
            between_.when.clear();
            show(key(step, "s.gA"), sender_->own_subspace_gradient());
            show(key(step, "s.gM"), sender_->subspace_gradient());
            train(*sender_, step, "s.dE");
        }
        if (receiver_) {
            if ((scenario_.run.seed + step) % 2 == 1 && step + 1 != scenario_.run.restart)
                first_a_ = receiver_->state().a;
            train(*receiver_, step, "r.dE");
        }
        show(key(step, "dW"), stage_->parameter_gradient(step));
        if (trainer_)
            train_stage(step);
    }

    void train_stage(Index step) {
        Floats gradient = seen_.at(key(step, "dW"));
        const auto own = static_cast<std::ptrdiff_t>(gradient.size());
        for (AnySide* side : trained_sides()) {
            const Floats of_table = side->anchor_gradient();
            gradient.insert(gradient.end(), of_table.begin(), of_table.end());
        }
        trainer_->step(gradient, scenario_.learning_rate);
        show(key(step, "g"), std::move(gradient));
        const Floats trained = trainer_->parameters();
        auto next = trained.begin() + own;
        stage_->set_parameters({trained.begin(), next});
        for (AnySide* side : trained_sides()) {
            const auto count = static_cast<std::ptrdiff_t>(side->anchor().size());
            side->set_anchor({next, next + count});
            next += count;
        }
    }

    /// Plain SGD on an anchor, as a caller's optimizer would do it. A trainer has the stage's parameters,
    /// too.
    void train(AnySide& side, Index step, const char* shown) {
        const Floats gradient = side.anchor_gradient();
        if (!trainer_ && step != scenario_.overflows &&
            (scenario_.run.anchors == Anchors::shared || scenario_.run.anchors == Anchors::two)) {
            Floats table = side.anchor();
            for (std::size_t i = 0; i < table.size() && i < gradient.size(); ++i)
                table[i] -= static_cast<float>(scenario_.anchor_rate) * gradient[i];
            side.set_anchor(table);
        }
        show(key(step, shown), gradient);
    }

    const Scenario& scenario_;
    const EndFactory& subjects_;
    RankRecording seen_;
    std::unique_ptr<distributed::CountingPeers> late_; ///< if messages are held back
    RecordingPeers tapped_;                            ///< to neighbours
    RecordingPeers between_;                           ///< to other replicas, except for the trainer's
    int rank_;
    int place_; ///< its stage in the pipeline
    std::unique_ptr<Stage> stage_;
    std::unique_ptr<PeerCommunicator> replicas_; ///< of this stage, if there is a trainer
    std::unique_ptr<PeerCommunicator> joined_;   ///< the trainer's with a known bug, instead
    std::unique_ptr<AnyReceiver> receiver_;
    std::unique_ptr<AnySender> sender_;
    std::unique_ptr<AnyTrainer> trainer_;
    Floats first_a_; ///< r.A of a step, if state() was the first to wait for it; until it is shown
};

} // namespace

RankRecording play_stage(const Scenario& scenario, const EndFactory& subjects, distributed::Peers& peers) {
    return Player(scenario, subjects, peers).play();
}

} // namespace truestep::properties::mapl
