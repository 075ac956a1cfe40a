// The rules of the plain implementation, and who owns what.
#pragma once

#include <vector>

#include "plain.hpp"

namespace truestep::properties::dense {

struct PlainState {
    Index steps = 0;
    Floats w;
    Floats m;
    Floats v;
};

class PlainRules {
  public:
    PlainRules(Bug bug, Problem problem);

    /// The owner of each coordinate; -1: all ranks.
    [[nodiscard]] std::vector<int> owners(bool sharded) const;
    /// Updates the coordinates that a rank owns.
    void update(const std::vector<double>& rates, const Floats& mean, const std::vector<std::size_t>& own,
                PlainState& state) const;

  private:
    struct Step {
        Group group;
        double rate = 0.0;
        Index t = 1;
    };
    [[nodiscard]] bool takes_matrix(std::size_t tensor) const;
    void elementwise(const Step& step, float gradient, float& w, float& m, float& v) const;
    void muon(const Step& step, std::size_t tensor, const Floats& mean, PlainState& state) const;

    Bug bug_;
    Problem problem_;
    problem::Layout layout_;
    std::vector<std::size_t> groups_;
};

} // namespace truestep::properties::dense
