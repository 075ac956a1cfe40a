#pragma once

#include <truestep/gpu/mapl/devices.hpp>

namespace truestep::gpu::mapl {

/// A side's data in a machine's memory from step to step, besides codebooks.
template <class Machine>
struct SideVectors {
    using Vector = typename Machine::template Vector<float>;

    void begin(Machine& machine, const Settings& settings, const EndState& state) {
        set(machine, a, state.a);
        set(machine, m, state.m);
        set(machine, anchor, state.anchor);
        set(machine, rows, state.rows);
        zero(machine, part, a.size());
        const bool trained = settings.anchors == Anchors::shared || settings.anchors == Anchors::two;
        zero(machine, anchor_sum, trained ? anchor.size() : 0);
        zero(machine, anchor_gradient, anchor_sum.size());
    }

    static void set(Machine& machine, Vector& to, const Floats& from) {
        machine.resize(to, static_cast<Index>(from.size()));
        machine.upload(to.data(), from.data(), to.size());
    }

    [[nodiscard]] const Vector& of(Backend::StatePart what) const {
        switch (what) {
        case Backend::StatePart::m:
            return m;
        case Backend::StatePart::anchor:
            return anchor;
        case Backend::StatePart::rows:
            return rows;
        case Backend::StatePart::gradient:
            return gradient;
        case Backend::StatePart::anchor_gradient:
            return anchor_gradient;
        default:
            return a;
        }
    }

    Vector a, m;
    Vector anchor;          ///< E
    Vector rows;            ///< P
    Vector part;            ///< of the gradient of A that this side has
    Vector anchor_sum;      ///< of the current step; empty if E is not trained
    Vector anchor_gradient; ///< of the last one
    Vector gradient;        ///< of A, of the last step: the sender's

  private:
    static void zero(Machine& machine, Vector& to, Index size) {
        machine.resize(to, size);
        machine.fill(to, 0);
    }
};

} // namespace truestep::gpu::mapl
