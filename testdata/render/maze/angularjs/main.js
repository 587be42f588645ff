import angular from 'angular';
import 'angular-route';

angular.module('app', ['ngRoute']).config(['$routeProvider', '$locationProvider', (routes, location) => {
  location.html5Mode(true);
  routes.when('/', {template: '<p>home</p>'}).when('/found/ng-href', {template: '<p>linked by ng-href</p>'});
}]);
