// Fits a power law to measured points by least squares of their logarithms.
#include "model/fit.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace truestep::model {

double PowerFit::at(double x) const {
    return factor * std::pow(x, exponent);
}

std::optional<PowerFit> fit_power(const Curve& points, double from) {
    std::vector<double> x;
    std::vector<double> y;
    for (std::size_t i = 0; i < points.x.size(); ++i)
        if (points.x[i] >= from) {
            x.push_back(std::log(points.x[i]));
            y.push_back(std::log(points.y[i]));
        }
    if (x.size() < 3)
        return std::nullopt;
    const auto count = static_cast<double>(x.size());
    double mean_x = 0;
    double mean_y = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        mean_x += x[i] / count;
        mean_y += y[i] / count;
    }
    double covariance = 0;
    double variance = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        covariance += (x[i] - mean_x) * (y[i] - mean_y);
        variance += (x[i] - mean_x) * (x[i] - mean_x);
    }
    if (variance <= 0)
        return std::nullopt;
    PowerFit fit;
    fit.exponent = covariance / variance;
    fit.factor = std::exp(mean_y - fit.exponent * mean_x);
    const auto [least, most] = std::minmax_element(x.begin(), x.end());
    fit.from = std::exp(*least);
    fit.to = std::exp(*most);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double off = y[i] - mean_y - fit.exponent * (x[i] - mean_x);
        fit.residual += off * off / count;
        fit.largest = std::max(fit.largest, std::abs(off));
    }
    fit.residual = std::sqrt(fit.residual);
    return fit;
}

} // namespace truestep::model
